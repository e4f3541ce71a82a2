// Package bench measures the binary that ships, in its default configuration, from the
// outside: it starts clusters with `berth up` and talks to them as any client does.
//
// There is nothing here but benchmarks; `make bench` builds the binary and runs them. The
// machines are shared and noisy, so what matters is compared within one run. Figures are
// kept in docs/performance.md.
package bench
