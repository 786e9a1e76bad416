// Package bench measures what tmpproxy costs and gains: the same workloads run directly, through tmpproxy with each of its
// strategies and through other proxies, side by side in rounds of changing order, on one machine. It starts what it needs:
// the proxies as processes of their own, a server unless it is given one, and relays that delay what passes to stand for a
// network. Results are ratios within rounds, with intervals.
//
// It is no load test of a server, generates no schedule of its own (every client sends its next statement when it has
// thought about the last answer), and knows no TLS but that of point selects and idle sessions.
package bench
