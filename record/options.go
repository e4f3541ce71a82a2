package record

import (
	"log/slog"
	"time"
)

// Options say where a scheduler's decisions are recorded, and how much of them is kept. Only Dir is required.
type Options struct {
	Dir   string // of one scheduler alone; "": nothing is recorded
	Berth string // version of the program
	// A segment ends at SegmentBytes of lines, or at as much as it began with where that is more; 0: 64 MiB. It
	// ends also at the first cycle that is SegmentAge after its start; 0: an hour.
	SegmentBytes int64
	SegmentAge   time.Duration
	TotalBytes   int64        // of all files together, as they are on disk; 0: 512 MiB
	Log          *slog.Logger // nil: silent
}

func (o Options) normal() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.SegmentAge <= 0 {
		o.SegmentAge = time.Hour
	}
	if o.TotalBytes <= 0 {
		o.TotalBytes = 512 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
