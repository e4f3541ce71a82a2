package cli

import (
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/berth-dev/berth/record"
)

// segmentStatus is one segment as `berth replay -o json` lists it.
type segmentStatus struct {
	File    string         `json:"file"`
	From    time.Time      `json:"from,omitzero"`
	To      time.Time      `json:"to,omitzero"`
	Cycles  int            `json:"cycles"`
	Starts  int            `json:"starts"`
	Waiting int            `json:"waiting"` // at the end
	Bytes   int64          `json:"bytes"`   // on disk
	Because record.Because `json:"because,omitempty"`
	Berth   string         `json:"berth,omitempty"`
	Torn    bool           `json:"torn,omitempty"` // it is being written, or its writer was killed
	Error   string         `json:"error,omitempty"`
}

// list prints what is kept.
func (o *replayOptions) list(log *record.Log) error {
	done := o.patience("reading the log")
	all := []segmentStatus{}
	for _, s := range log.Segments() {
		all = append(all, segmentOf(s))
	}
	done()
	if o.output == "json" {
		return o.printJSON(map[string]any{"segments": all})
	}
	w := tabwriter.NewWriter(o.streams.Out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "FROM\tTO\tCYCLES\tSTARTS\tWAITING\tSIZE\tBEGUN BY\tBERTH\tFILE")
	for _, s := range all {
		if s.Error != "" {
			s.File += ", damaged"
		}
		if s.From.IsZero() {
			fmt.Fprintf(w, "-\t-\t-\t-\t-\t%s\t-\t-\t%s\n", byteText(s.Bytes), s.File)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", stamp(s.From), stamp(s.To), s.Cycles, s.Starts, s.Waiting, byteText(s.Bytes), s.Because, s.Berth, s.File)
	}
	return w.Flush()
}

func segmentOf(s record.Segment) segmentStatus {
	st := segmentStatus{File: filepath.Base(s.Path), Bytes: s.Size}
	if s.Err != nil {
		st.Error = s.Err.Error()
		return st
	}
	st.From, st.To, st.Because, st.Berth = s.Start, s.Start, s.Because, s.Berth
	sum, err := s.Summarize()
	if err != nil {
		st.Error = err.Error()
	}
	st.Cycles, st.Starts, st.Waiting, st.Torn = sum.Cycles, sum.Starts, sum.Waiting, sum.Torn
	if !sum.To.IsZero() {
		st.To = sum.To
	}
	return st
}

// byteText is a size for people.
func byteText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
