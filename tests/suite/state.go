package suite

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// state is what a test file may leave behind in a server: by kind of thing, names and values.
type state map[string]map[string]string

// inspections say how a state is read. A query gives a name and a value in each row.
var inspections = map[string]string{
	"schema":    `SELECT SCHEMA_NAME, '' FROM information_schema.SCHEMATA`,
	"variable":  `SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_variables WHERE VARIABLE_NAME NOT IN ('timestamp', 'gtid_executed', 'gtid_purged', 'server_uuid')`,
	"plugin":    `SELECT PLUGIN_NAME, PLUGIN_STATUS FROM information_schema.PLUGINS`,
	"account":   `SELECT CONCAT(QUOTE(user), '@', QUOTE(host)), '' FROM mysql.user`,
	"table":     `SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ('mysql', 'sys', 'mtr')`,
	"routine":   `SELECT CONCAT(ROUTINE_SCHEMA, '.', ROUTINE_NAME), ROUTINE_TYPE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA IN ('mysql', 'sys', 'mtr')`,
	"setup":     `SELECT 'actors', COUNT(*) FROM performance_schema.setup_actors UNION ALL SELECT 'objects', COUNT(*) FROM performance_schema.setup_objects UNION ALL SELECT 'consumers', GROUP_CONCAT(NAME, ENABLED ORDER BY NAME) FROM performance_schema.setup_consumers UNION ALL SELECT 'instruments', SUM(CRC32(CONCAT(NAME, ENABLED, TIMED))) FROM performance_schema.setup_instruments`,
	"resource":  `SELECT RESOURCE_GROUP_NAME, RESOURCE_GROUP_ENABLED FROM information_schema.RESOURCE_GROUPS`,
	"space":     `SELECT TABLESPACE_NAME, '' FROM information_schema.FILES WHERE FILE_TYPE IN ('TABLESPACE', 'UNDO LOG') AND TABLESPACE_NAME NOT LIKE '%/%'`,
	"persisted": `SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.persisted_variables`,
	"prepared":  `XA RECOVER`,
}

// summed are tables of the server's own whose contents a test file may change.
var summed = []string{
	"columns_priv", "component", "db", "default_roles", "engine_cost", "func", "general_log", "global_grants", "password_history", "plugin", "procs_priv",
	"proxies_priv", "role_edges", "server_cost", "servers", "slow_log", "tables_priv", "time_zone", "time_zone_leap_second", "time_zone_name",
	"time_zone_transition", "time_zone_transition_type", "user",
}

func (b *Bench) inspect(ctx context.Context) (state, error) {
	s := state{}
	conn, err := b.Server.DB().Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET SESSION sql_mode = '', group_concat_max_len = 1000000, information_schema_stats_expiry = 0"); err != nil {
		return nil, err
	}
	for kind, query := range inspections {
		if s[kind], err = pairs(ctx, conn, query); err != nil {
			return nil, fmt.Errorf("inspect the server: %s: %w", kind, err)
		}
	}
	if s["content"], err = pairs(ctx, conn, "CHECKSUM TABLE mysql."+strings.Join(summed, ", mysql.")); err != nil {
		return nil, fmt.Errorf("inspect the server: %w", err)
	}
	return s, nil
}

func pairs(ctx context.Context, conn *sql.Conn, query string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	result := map[string]string{}
	values := make([]sql.NullString, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		var rest []string
		for _, v := range values[1:] {
			rest = append(rest, v.String)
		}
		result[values[0].String] = strings.Join(rest, " ")
	}
	return result, rows.Err()
}

// differs names what is not the same in two states.
func (s state) differs(other state) []string {
	var list []string
	for kind := range s {
		for _, name := range slices.Concat(slices.Collect(maps.Keys(s[kind])), slices.Collect(maps.Keys(other[kind]))) {
			value, ok := s[kind][name]
			if now, still := other[kind][name]; ok != still || value != now {
				list = append(list, kind+" "+name)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Reset makes the server as it was before a file ran. What a file may leave behind in an orderly way is taken away; a server
// that is not the same then begins again with fresh data.
func (b *Bench) Reset(ctx context.Context) (renewed bool, why string, err error) {
	why = b.tidy(ctx)
	if why == "" {
		return false, "", nil
	}
	return true, why, b.renew(ctx)
}

// tidy takes away what a file left behind and returns what remains, in words; "" if nothing.
func (b *Bench) tidy(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	if err := b.sendAway(ctx); err != nil {
		return err.Error()
	}
	found, err := b.inspect(ctx)
	if err != nil {
		return err.Error()
	}
	statements := b.repairs(found)
	// No file finds what the one before it left in the binary log, or accounts that it took out of the tables alone.
	statements = append(statements, "FLUSH PRIVILEGES", "DROP DATABASE IF EXISTS test", "CREATE DATABASE test", "RESET BINARY LOGS AND GTIDS")
	if err := b.Server.Exec(ctx, statements...); err != nil {
		return err.Error()
	}
	if len(b.initial.differs(found)) > 0 {
		if found, err = b.inspect(ctx); err != nil {
			return err.Error()
		}
	}
	if left := b.initial.differs(found); len(left) > 0 {
		return "left behind: " + strings.Join(left[:min(len(left), 5)], ", ")
	}
	return ""
}

const tidyTimeout = 20 * time.Second

// sendAway ends the connections of the file's clients.
func (b *Bench) sendAway(ctx context.Context) error {
	conn, err := b.Server.DB().Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		others, err := pairs(ctx, conn, `SELECT ID, '' FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND NOT IN ('Daemon', 'Binlog Dump') AND USER NOT IN ('system user', 'event_scheduler')`)
		if err != nil {
			return err
		}
		if len(others) == 0 {
			return nil
		}
		for id := range others {
			// It may have gone by itself.
			_, _ = conn.ExecContext(ctx, "KILL "+id)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("clients remain: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

var number = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// repairs are statements that make found what it was.
func (b *Bench) repairs(found state) []string {
	list := []string{}
	if len(found["persisted"]) > 0 {
		list = append(list, "RESET PERSIST")
	}
	for name, value := range b.initial["variable"] {
		if now, ok := found["variable"][name]; ok && now != value {
			if !number.MatchString(value) {
				value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
			}
			list = append(list, "SET GLOBAL "+name+" = "+value)
		}
	}
	for _, kind := range []struct{ name, drop string }{{"schema", "DROP DATABASE `%s`"}, {"account", "DROP USER %s"}} {
		for name := range found[kind.name] {
			if _, ok := b.initial[kind.name][name]; !ok && name != "test" {
				list = append(list, fmt.Sprintf(kind.drop, strings.ReplaceAll(name, "`", "``")))
			}
		}
	}
	return list
}
