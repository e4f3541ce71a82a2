package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// measurement is one thing to measure, for one scheduler after the other, each on an API server of its own.
type measurement struct {
	name  string // for -only
	title string
	who   []string
	run   func(ctx context.Context, c *cluster, who string) ([]figure, error)
}

// figure is one number that was measured.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// result is what one scheduler did in one round.
type result struct {
	Measurement string   `json:"measurement"`
	Who         string   `json:"who"`
	Round       int      `json:"round"`
	Figures     []figure `json:"figures"`
}

// measurements are all, in the order in which they are taken.
func measurements(o options) []measurement {
	all := []string{whoBare, whoOurs, whoStock}
	two := []string{whoOurs, whoStock}
	return []measurement{
		{"pods5000", "5,000 nodes, 10,000 pods of one GPU", all, singles(o.scaled(5000), o.scaled(10000))},
		{"gangs5000", "5,000 nodes, 1,000 gangs of 8 with a required rack", all, gangs(o.scaled(5000), o.scaled(1000))},
		{"mixed5000", "5,000 nodes that run a fleet, 20 queues, 40 request shapes: 10,000 pods, half of them in gangs of 4; then pods that come as others end", all, mixed(o.scaled(5000), o.scaled(10000))},
		{"pods500", "500 nodes, 4,000 pods of one GPU; then a gang of 10 x 8 GPUs that cannot run", all, full(o.scaled(500), o.scaled(4000))},
		{"gangs500", "500 nodes, 100 gangs of 8 with a required rack", all, gangs(o.scaled(500), o.scaled(100))},
		{"mixed500", "500 nodes that run a fleet, 20 queues, 40 request shapes: 1,000 pods, half of them in gangs of 4; then pods that come as others end", all, mixed(o.scaled(500), o.scaled(1000))},
		{"gang512", "500 nodes, one gang of 512: waiting at the start, then another while it runs", two, large(o.scaled(500), o.scaled(512))},
		{"latency", "500 nodes, idle: one pod at a time", two, latency(o.scaled(500), o.scaled(200))},
		{"reclaim", "500 nodes full of a queue's borrowed pods: another queue claims its quota of 8 GPUs", []string{whoOurs}, reclaim(o.scaled(500))},
		{"restart", "5,000 nodes, 40,000 bound pods: from start to the first new binding", two, restart(o.scaled(5000))},
		{"inspect", "5,000 nodes, 10,000 pods, 10,000 events: all that a diagnosis reads", []string{whoOurs}, inspection(o.scaled(5000), o.scaled(10000))},
	}
}

func names() []string {
	var out []string
	for _, m := range measurements(options{}) {
		out = append(out, m.name)
	}
	return out
}

// chosen are the measurements and the schedulers that -only and -who name.
func chosen(o options) ([]measurement, error) {
	all := measurements(o)
	only, err := choice("-only", o.only, names())
	if err != nil {
		return nil, err
	}
	who, err := choice("-who", o.who, []string{whoBare, whoOurs, whoStock})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m measurement) bool { return !slices.Contains(only, m.name) })
	for i := range all {
		all[i].who = slices.DeleteFunc(slices.Clone(all[i].who), func(w string) bool { return !slices.Contains(who, w) })
	}
	return all, nil
}

// choice reads words with commas between; none is all of them.
func choice(flag, words string, from []string) ([]string, error) {
	if words == "" {
		return from, nil
	}
	list := strings.Split(words, ",")
	for _, w := range list {
		if !slices.Contains(from, w) {
			return nil, fmt.Errorf("%s %q: choose from %s", flag, w, strings.Join(from, ", "))
		}
	}
	return list, nil
}

// measure takes all measurements and prints the table.
func measure(ctx context.Context, o options) error {
	list, err := chosen(o)
	if err != nil {
		return err
	}
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return err
		}
	}
	results, err := takeAll(ctx, o, list)
	if len(results) == 0 {
		return err
	}
	printTable(os.Stdout, list, results)
	printBars(os.Stdout, results)
	if o.json != "" {
		err = errors.Join(err, writeJSON(o.json, results))
	}
	return err
}

// takeAll returns what it has when something fails.
func takeAll(ctx context.Context, o options, list []measurement) ([]result, error) {
	var results []result
	for round := range o.count {
		for _, m := range list {
			for i := range m.who {
				who := m.who[(i+round)%len(m.who)] // not always the same one first
				began := time.Now()
				figures, err := take(ctx, o, m, who)
				if err != nil {
					return results, fmt.Errorf("%s, %s: %w", m.name, who, err)
				}
				results = append(results, result{m.name, who, round, figures})
				fmt.Fprintf(os.Stderr, "%d/%d  %-9s  %-5s  %3.0f s  %s\n", round+1, o.count, m.name, who, time.Since(began).Seconds(), brief(figures))
			}
		}
	}
	return results, nil
}

func take(ctx context.Context, o options, m measurement, who string) (figures []figure, err error) {
	c, err := startCluster(ctx, o, m.name+"-"+who)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	return m.run(ctx, c, who)
}
