package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// The figures, by the names that the table gives them.
const (
	figRate           = "pods/s, from the scheduler's start"
	figSteady         = "pods/s, from the first binding"
	figFirst          = "first binding after, s"
	figLast           = "last binding after, s"
	figPause          = "longest pause, s"
	figBound          = "share bound in time"
	figWrites         = "writes per pod"
	figEvents         = "  of these events"
	figStatuses       = "  of these statuses"
	figServerCPU      = "API server CPU until the last binding, s"
	figSchedulerCPU   = "scheduler CPU until the last binding, s"
	figCPU            = "CPU of both per pod, ms"
	figOthers         = "cores that other programs used meanwhile"
	figOnline         = "last binding after its last pod's creation, s"
	figNo             = "told no, median, ms"
	figNoMax          = "told no, longest, ms"
	figAllNo          = "all pods told no, median, ms"
	figAllNoMax       = "all pods told no, longest, ms"
	figP50            = "creation to binding, p50, ms"
	figP99            = "creation to binding, p99, ms"
	figMax            = "creation to binding, longest, ms"
	figReclaim        = "8 pods of a quota bound after the last's creation, median, ms"
	figReclaimMax     = "8 pods of a quota, longest, ms"
	figReclaimGang    = "gang of 8 in a quota, median, ms"
	figReclaimGangMax = "gang of 8 in a quota, longest, ms"
	figCold           = "first start, s"
	figRestart        = "restart after an orderly end, s"
	figKilled         = "restart after kill -9, s"
	figGather         = "all read, median, s"
	figGatherMax      = "all read, longest, s"
	figReaderCPU      = "  CPU of the reader, s"
)

// table has the medians of all rounds: by measurement, figure and who.
type table map[string]map[string]map[string]float64

func medians(results []result) table {
	all := map[[3]string][]float64{}
	for _, r := range results {
		for _, f := range r.Figures {
			k := [3]string{r.Measurement, f.Name, r.Who}
			all[k] = append(all[k], f.Value)
		}
	}
	t := table{}
	for k, values := range all {
		if t[k[0]] == nil {
			t[k[0]] = map[string]map[string]float64{}
		}
		if t[k[0]][k[1]] == nil {
			t[k[0]][k[1]] = map[string]float64{}
		}
		t[k[0]][k[1]][k[2]] = median(values)
	}
	return t
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// printTable prints a block for each measurement, a line for each figure, a column for each scheduler.
func printTable(w io.Writer, list []measurement, results []result) {
	t := medians(results)
	for _, m := range list {
		if t[m.name] == nil {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", m.title)
		tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
		fmt.Fprintf(tw, "\t%s\t\n", strings.Join(m.who, "\t"))
		for _, name := range figureNames(m.name, results) {
			cells := make([]string, len(m.who))
			for i, who := range m.who {
				if v, ok := t[m.name][name][who]; ok {
					cells[i] = number(v)
				}
			}
			fmt.Fprintf(tw, "%s\t%s\t\n", name, strings.Join(cells, "\t"))
		}
		tw.Flush()
	}
}

// figureNames are those of a measurement, in the order in which they were taken.
func figureNames(measurement string, results []result) []string {
	var out []string
	for _, r := range results {
		for _, f := range r.Figures {
			if r.Measurement == measurement && !slices.Contains(out, f.Name) {
				out = append(out, f.Name)
			}
		}
	}
	return out
}

// number has three digits that count, and no fraction from 100 on.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// brief is the first of the figures that people look for.
func brief(figures []figure) string {
	for _, name := range []string{figRate, figP99, figReclaim, figRestart, figGather} {
		for _, f := range figures {
			if f.Name == name {
				return number(f.Value) + " " + name
			}
		}
	}
	return ""
}

func writeJSON(path string, results []result) error {
	b, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
