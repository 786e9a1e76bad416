package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Galera is MariaDB 10.11 with what makes a cluster of several servers. StartCluster starts it.
const Galera Kind = "galera"

// transferScript stands for the program that copies one node's data to another. Here all nodes begin with the same data, and a node that
// comes back is sent what it has missed by the cluster itself: the script only passes on from where.
const transferScript = `#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
  --role) role=$2; shift ;;
  --address) address=$2; shift ;;
  --datadir) data=$2; shift ;;
  --gtid) gtid=$2; shift ;;
  --gtid-domain-id) domain=$2; shift ;;
  --bypass) bypass=yes ;;
  esac
  shift
done
case $role in
joiner)
  word=${data%/}.word
  rm -f "$word"
  mkfifo "$word"
  echo "ready $word"
  cat "$word"
  rm -f "$word"
  ;;
donor)
  [ -n "$bypass" ] || exit 1
  echo "$gtid ${domain:-0}" >"$address"
  echo "done $gtid"
  ;;
esac
`

// Cluster is several servers on the loopback interface that replicate to each other.
type Cluster struct {
	Nodes []*Server

	dir     string
	options [][]string // of each node
}

// StartCluster obtains the programs if need be and starts a cluster of n nodes. It returns when all are synced. The caller stops it.
func StartCluster(ctx context.Context, n int) (*Cluster, error) {
	root, err := Obtain(ctx, Galera)
	if err != nil {
		return nil, err
	}
	pristine, err := pristineData(ctx, Galera, root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tmpproxy-galera-")
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &Cluster{dir: dir}
	if err := c.start(ctx, root, pristine, n); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, root, pristine string, n int) error {
	if err := os.WriteFile(filepath.Join(c.dir, "wsrep_sst_beside"), []byte(transferScript), 0o700); err != nil {
		return err
	}
	addresses, err := FreeAddresses(3 * n) // for clients, for the group, for what was missed
	if err != nil {
		return err
	}
	group := addresses[n : 2*n]
	for i := range n {
		s := &Server{Kind: Galera, Dir: filepath.Join(c.dir, fmt.Sprint(i)), user: "root", root: root, data: "data", Address: addresses[i],
			environment: []string{"PATH=" + c.dir + ":" + os.Getenv("PATH")}}
		s.Socket = filepath.Join(s.Dir, "s")
		c.options = append(c.options, []string{
			"--wsrep-on=ON", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-log-file-size=16M",
			"--wsrep-provider=" + filepath.Join(root, "usr/lib/galera/libgalera_smm.so"), "--wsrep-sst-method=beside",
			"--wsrep-cluster-address=gcomm://" + strings.Join(group, ","), "--wsrep-node-address=" + group[i],
			fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://%s;ist.recv_addr=%s;gcache.size=8M;"+
				"evs.suspect_timeout=PT1S;evs.inactive_timeout=PT3S;evs.keepalive_period=PT0.3S;evs.inactive_check_period=PT0.3S", group[i], addresses[2*n+i]),
		})
		if err := os.Mkdir(s.Dir, 0o700); err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, s)
	}
	// The first node alone makes the cluster's state, which all begin with.
	first := c.Nodes[0]
	if err := first.prepare(ctx, pristine); err != nil {
		return err
	}
	for range 2 {
		if err := first.Terminate(); err != nil {
			return err
		}
		for _, s := range c.Nodes[1:] {
			if first.db != nil { // it has run
				if err := s.prepare(ctx, first.DataDir()); err != nil {
					return err
				}
				for _, own := range []string{"gvwstate.dat", "galera.cache"} {
					os.Remove(filepath.Join(s.DataDir(), own))
				}
			}
		}
		if err := c.launch(ctx, 0, "--wsrep-new-cluster"); err != nil {
			return err
		}
	}
	for i := range c.Nodes[1:] {
		if err := c.launch(ctx, i+1); err != nil {
			return err
		}
	}
	return nil
}

// launch starts a node and returns when it is synced.
func (c *Cluster) launch(ctx context.Context, i int, more ...string) error {
	s := c.Nodes[i]
	s.args = append(append([]string{}, c.options[i]...), more...)
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("node %d: %w", i, err)
	}
	deadline := time.Now().Add(startTimeout)
	for {
		var name, state string
		err := s.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'wsrep_local_state'").Scan(&name, &state)
		if err == nil && state == "4" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("node %d is not synced: state %q, %v; its log ends:\n%s", i, state, err, s.LogTail(20))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

var recoveredPosition = regexp.MustCompile(`Recovered position: *(\S+)`)

// Revive starts a node that was killed and returns when it is synced.
func (c *Cluster) Revive(ctx context.Context, i int) error {
	s := c.Nodes[i]
	args := append([]string{"--datadir=" + s.DataDir(), "--socket=" + s.Socket, "--wsrep-recover", "--tmpdir=" + filepath.Join(s.Dir, "tmp")}, c.options[i]...)
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	out, err := exec.CommandContext(ctx, filepath.Join(s.root, "bin", s.Kind.program()), args...).CombinedOutput()
	position := recoveredPosition.FindSubmatch(out)
	if err != nil || position == nil {
		return fmt.Errorf("recover node %d: %v\n%s", i, err, out)
	}
	return c.launch(ctx, i, "--wsrep-start-position="+string(position[1]))
}

// Stop ends all nodes and removes their data.
func (c *Cluster) Stop() error {
	var all []error
	for _, s := range c.Nodes {
		if s.db != nil {
			s.db.Close()
		}
		all = append(all, s.Kill())
	}
	return errors.Join(append(all, os.RemoveAll(c.dir))...)
}
