package rewrite

import "strings"

// The lists of this file were not copied from the manuals but observed: for every
// keyword, help topic and function that MySQL 9.7 and MariaDB 10.5, 10.11 and 11.8
// list of themselves a stored function of that name was created and called without
// quotes and schema, with no to four arguments. Words that never ran the stored
// function are native. A missing word makes a statement opaque, which costs speed; a
// wrong one would hide a stored function. So only words are listed that all
// MariaDB servers above know, and of MySQL's own those that 8.0 knows too.

// nativeBoth are the words that are native on MySQL and MariaDB.
const nativeBoth = `
abs accessible acos add adddate addtime aes_decrypt aes_encrypt all alter analyze and any as asc ascii
asensitive asin atan atan2 avg backup before begin benchmark between bigint bin binary binlog bit bit_and
bit_count bit_length bit_or bit_xor blob bool boolean both by byte cache call cascade case cast ceil ceiling
change char char_length character character_length charset check checksum close coalesce code coercibility
collate collation column comment commit compress compressed concat concat_ws condition connection_id
constraint contains continue conv convert convert_tz cos cot count crc32 create cross cume_dist curdate
current_date current_role current_time current_timestamp current_user cursor curtime database databases date
date_add date_format date_sub datediff datetime day day_hour day_microsecond day_minute day_second dayname
dayofmonth dayofweek dayofyear deallocate dec decimal declare default degrees delayed delete dense_rank desc
describe deterministic distinct distinctrow div do double drop dual each else elseif elt enclosed end enum
escaped except exclude execute exists exit exp explain export_set extract extractvalue false fetch field
find_in_set first_value fixed float float4 float8 floor flush following follows for force foreign format
found_rows from from_base64 from_days from_unixtime fulltext function get get_format get_lock global grant
greatest group group_concat handler having help hex high_priority hour hour_microsecond hour_minute
hour_second if ifnull ignore in index inet6_aton inet6_ntoa inet_aton inet_ntoa infile inner inout insensitive
insert install instr int int1 int2 int3 int4 int8 integer intersect interval into is is_free_lock is_ipv4
is_ipv4_compat is_ipv4_mapped is_ipv6 is_used_lock isnull iterate join json json_array json_array_append
json_array_insert json_arrayagg json_contains json_contains_path json_depth json_extract json_insert json_keys
json_length json_merge json_merge_patch json_merge_preserve json_object json_objectagg json_pretty json_quote
json_remove json_replace json_search json_set json_type json_unquote json_valid json_value key keys kill lag
language last_day last_insert_id last_value lcase lead leading least leave left length like limit linear lines
ln load load_file local localtime localtimestamp locate lock log log10 log2 long longblob longtext loop
low_priority lower lpad ltrim make_set makedate maketime master_pos_wait match max maxvalue mbrcontains
mbrdisjoint mbrequals mbrintersects mbroverlaps mbrtouches mbrwithin medium mediumblob mediumint mediumtext
microsecond mid middleint min minute minute_microsecond minute_second mod modifies month monthname name_const
names national natural nchar no no_write_to_binlog not now nth_value ntile null nullif number numeric nvarchar
oct octet_length offset on open optimize option optionally options or ord order others out outer outfile over
parser partition password percent_rank period_add period_diff pi port position pow power precedes preceding
precision prepare primary procedure purge quarter quote radians rand range rank read read_write reads real
recursive references regexp regexp_instr regexp_replace regexp_substr release release_all_locks release_lock
remove rename repair repeat replace replica replicas require reset resignal restore restrict return returning
reverse revoke right rlike role rollback round row row_count row_number rows rpad rtrim savepoint schema
schemas sec_to_time second second_microsecond security select sensitive separator serial server session
session_user set sha2 show shutdown sign signal signed sin slave sleep smallint some soname soundex sounds
space spatial specific sql sql_big_result sql_buffer_result sql_calc_found_rows sql_no_cache sql_small_result
sql_tsi_day sql_tsi_hour sql_tsi_minute sql_tsi_month sql_tsi_second sql_tsi_year sqlexception sqlstate
sqlwarning sqrt srid ssl st_area st_asbinary st_asgeojson st_astext st_aswkb st_aswkt st_buffer st_centroid
st_contains st_convexhull st_crosses st_difference st_dimension st_disjoint st_distance st_distance_sphere
st_endpoint st_envelope st_equals st_exteriorring st_geomcollfromtext st_geomcollfromwkb
st_geometrycollectionfromtext st_geometrycollectionfromwkb st_geometryfromtext st_geometryfromwkb st_geometryn
st_geometrytype st_geomfromgeojson st_geomfromtext st_geomfromwkb st_interiorringn st_intersection
st_intersects st_isclosed st_isempty st_issimple st_length st_linefromtext st_linefromwkb
st_linestringfromtext st_linestringfromwkb st_mlinefromtext st_mlinefromwkb st_mpointfromtext st_mpointfromwkb
st_mpolyfromtext st_mpolyfromwkb st_multilinestringfromtext st_multilinestringfromwkb st_multipointfromtext
st_multipointfromwkb st_multipolygonfromtext st_multipolygonfromwkb st_numgeometries st_numinteriorrings
st_numpoints st_overlaps st_pointfromtext st_pointfromwkb st_pointn st_polyfromtext st_polyfromwkb
st_polygonfromtext st_polygonfromwkb st_srid st_startpoint st_symdifference st_touches st_union st_within st_x
st_y start starting stats_auto_recalc stats_persistent stats_sample_pages std stddev stddev_pop stddev_samp
stop stored str_to_date straight_join strcmp subdate substr substring substring_index subtime sum sysdate
system_user table tan terminated text then ties time time_format time_to_sec timediff timestamp timestampadd
timestampdiff tinyblob tinyint tinytext to to_base64 to_days to_seconds trailing trigger trim true truncate
ucase unbounded uncompress uncompressed_length undo unhex unicode uninstall union unique unix_timestamp unlock
unsigned update updatexml upgrade upper usage use user using utc_date utc_time utc_timestamp uuid uuid_short
value values var_pop var_samp varbinary varchar varcharacter variance varying version week weekday weekofyear
weight_string when where while window with wrapper write xa xor year year_month yearweek zerofill
`

// nativeMySQL are further ones of MySQL.
const nativeMySQL = `
any_value array bin_to_uuid btree columns fields format_bytes format_pico_time geomcollection geometry
geometrycollection grouping gtid_subset gtid_subtract hash icu_version is_uuid json_overlaps json_schema_valid
json_schema_validation_report json_storage_free json_storage_size json_table lateral linestring list
mbrcoveredby mbrcovers member multilinestring multipoint multipolygon of partitions point polygon
ps_current_thread_id ps_thread_id random_bytes regexp_like roles_graphml serial st_collect st_frechetdistance
st_geohash st_hausdorffdistance st_isvalid st_latfromgeohash st_latitude st_lineinterpolatepoint
st_lineinterpolatepoints st_longfromgeohash st_longitude st_makeenvelope st_numinteriorring st_pointatdistance
st_pointfromgeohash st_simplify st_swapxy st_transform st_validate statement_digest statement_digest_text than
uuid_to_bin validate_password_strength wait_for_executed_gtid_set
`

// nativeMariaDB are further ones of MariaDB.
const nativeMariaDB = `
area asbinary astext aswkb aswkt binlog_gtid_pos boundary buffer centroid chr column_add column_check
column_create column_delete column_exists column_get column_json column_list concat_operator_oracle convexhull
crosses decode decode_histogram decode_oracle des_decrypt des_encrypt dimension disjoint encode encrypt
endpoint envelope equals exteriorring geomcollfromtext geomcollfromwkb geometrycollectionfromtext
geometrycollectionfromwkb geometryfromtext geometryfromwkb geometryn geometrytype geomfromtext geomfromwkb
glength interiorringn intersects isclosed isempty isring issimple json_compact json_detailed json_exists
json_loose json_query lastval lengthb linefromtext linefromwkb linestringfromtext linestringfromwkb
lpad_oracle ltrim_oracle master_gtid_wait mbrequal md5 median mlinefromtext mlinefromwkb mpointfromtext
mpointfromwkb mpolyfromtext mpolyfromwkb multilinestringfromtext multilinestringfromwkb multipointfromtext
multipointfromwkb multipolygonfromtext multipolygonfromwkb nextval numgeometries numinteriorrings numpoints
nvl nvl2 old_password overlaps percentile_cont percentile_disc pointfromtext pointfromwkb pointn
pointonsurface polyfromtext polyfromwkb polygonfromtext polygonfromwkb replace_oracle rpad_oracle rtrim_oracle
setval sha sha1 st_boundary st_isring st_pointonsurface st_relate startpoint substr_oracle touches trim_oracle
varchar2 within wsrep_last_seen_gtid wsrep_last_written_gtid wsrep_sync_wait_upto_gtid x y
`

// nativeAdjacent are those of the above that are native only when the parenthesis
// follows at once, on at least one of the servers and unless sql_mode IGNORE_SPACE says
// otherwise.
const nativeAdjacent = `
adddate bit_and bit_or bit_xor cast count cume_dist curdate curtime date_add date_format date_sub dense_rank
extract first_value group_concat json_arrayagg json_objectagg lag lead max median mid min now nth_value ntile
percent_rank percentile_cont percentile_disc position rank row_number session_user st_collect std stddev
stddev_pop stddev_samp subdate substr substring sum sysdate system_user trim trim_oracle var_pop var_samp
variance
`

// reservedBoth are the words that name no table without quotes, on MySQL and MariaDB.
const reservedBoth = `
accessible add all alter analyze and as asc asensitive before between bigint binary blob both by call cascade
case change char character check collate column condition constraint continue convert create cross
current_date current_time current_timestamp current_user cursor database databases day_hour day_microsecond
day_minute day_second dec decimal declare default delayed delete desc describe deterministic distinct
distinctrow div double drop dual each else elseif enclosed escaped except exists exit explain false fetch
float float4 float8 for force foreign from fulltext grant group having high_priority hour_microsecond
hour_minute hour_second if ignore in index infile inner inout insensitive insert int int1 int2 int3 int4 int8
integer intersect interval into is iterate join key keys kill leading leave left like limit linear lines load
localtime localtimestamp lock long longblob longtext loop low_priority match maxvalue mediumblob mediumint
mediumtext middleint minute_microsecond minute_second mod modifies natural no_write_to_binlog not null numeric
on optimize optionally or order out outer outfile over partition precision primary procedure purge range read
read_write reads real recursive references regexp release rename repeat replace require resignal restrict
return revoke right rlike row_number rows schema schemas second_microsecond select sensitive separator set
show signal smallint spatial specific sql sql_big_result sql_calc_found_rows sql_small_result sqlexception
sqlstate sqlwarning ssl starting straight_join table terminated then tinyblob tinyint tinytext to trailing
trigger true undo union unique unlock unsigned update usage use using utc_date utc_time utc_timestamp values
varbinary varchar varcharacter varying when where while with write xor year_month zerofill
`

// reservedMySQL are further ones of MySQL.
const reservedMySQL = `
cube cume_dist dense_rank empty external first_value function generated get grouping groups io_after_gtids
io_before_gtids json_table lag last_value lateral lead library nth_value ntile of optimizer_costs option
percent_rank qualify rank row stored system tablesample virtual window
`

// reservedMariaDB are further ones of MariaDB.
const reservedMariaDB = `
current_role delete_domain_id do_domain_ids ignore_domain_ids master_demote_to_replica master_demote_to_slave
master_ssl_verify_server_cert offset page_checksum parse_vcol_expr portion ref_system_id returning
sql_after_gtids sql_before_gtids stats_auto_recalc stats_persistent stats_sample_pages vector
`

// wordFlags is what a word is.
type wordFlags uint8

const (
	isNativeMySQL wordFlags = 1 << iota
	isNativeMariaDB
	isNativeAdjacent
	isReservedMySQL
	isReservedMariaDB
)

// longestWord is the length of the longest word of the lists.
const longestWord = 29

var words = func() map[string]wordFlags {
	m := make(map[string]wordFlags)
	add := func(list string, flags wordFlags) {
		for w := range strings.FieldsSeq(list) {
			m[w] |= flags
		}
	}
	add(nativeBoth, isNativeMySQL|isNativeMariaDB)
	add(nativeMySQL, isNativeMySQL)
	add(nativeMariaDB, isNativeMariaDB)
	add(nativeAdjacent, isNativeAdjacent)
	add(reservedBoth, isReservedMySQL|isReservedMariaDB)
	add(reservedMySQL, isReservedMySQL)
	add(reservedMariaDB, isReservedMariaDB)
	return m
}()

// lookup returns what the word w is. It does not allocate.
func lookup(w []byte) wordFlags {
	var buf [longestWord]byte
	if len(w) > len(buf) {
		return 0
	}
	n := copy(buf[:], w)
	for i := range n {
		buf[i] = lower(buf[i])
	}
	return words[string(buf[:n])]
}

// isReserved tells whether the word w cannot name a table without quotes.
func isReserved(w []byte, mode Mode) bool {
	if mode&MariaDB != 0 {
		return lookup(w)&isReservedMariaDB != 0
	}
	return lookup(w)&isReservedMySQL != 0
}

// isNative tells whether the word w before a parenthesis, not quoted and without a
// schema, is surely not a stored function. Adjacent tells that nothing stands
// between.
func isNative(w []byte, mode Mode, adjacent bool) bool {
	f := lookup(w)
	if !adjacent && f&isNativeAdjacent != 0 {
		return false
	}
	if mode&MariaDB != 0 {
		return f&isNativeMariaDB != 0
	}
	return f&isNativeMySQL != 0
}
