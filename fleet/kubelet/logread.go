package kubelet

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// copyLog writes the journal to out as the options ask: tail, since, timestamps, byte limit, one
// stream only; with Follow it goes on until the container or ctx ends.
func copyLog(ctx context.Context, j *journal, o *corev1.PodLogOptions, out io.Writer) error {
	from := startOf(o, time.Now())
	lines, next, more := j.since(0)
	lines = selected(lines, o, from)
	if o.TailLines != nil {
		lines = lines[max(0, len(lines)-int(*o.TailLines)):]
	}
	left := int64(-1)
	if o.LimitBytes != nil {
		left = *o.LimitBytes
	}
	for {
		var err error
		if left, err = writeLines(out, lines, o.Timestamps, left); err != nil || left == 0 {
			return err
		}
		if !o.Follow || more == nil {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
		lines, next, more = j.since(next)
		lines = selected(lines, o, from)
	}
}

// startOf is the moment from which lines are wanted; zero: all.
func startOf(o *corev1.PodLogOptions, now time.Time) time.Time {
	switch {
	case o.SinceTime != nil:
		return o.SinceTime.Time
	case o.SinceSeconds != nil:
		return now.Add(-time.Duration(*o.SinceSeconds) * time.Second)
	}
	return time.Time{}
}

// selected keeps the lines of the wanted stream and time. The input is not changed.
func selected(lines []line, o *corev1.PodLogOptions, from time.Time) []line {
	only := corev1.LogStreamAll
	if o.Stream != nil {
		only = *o.Stream
	}
	if only == corev1.LogStreamAll && from.IsZero() {
		return lines
	}
	var kept []line
	for _, l := range lines {
		wrong := only == corev1.LogStreamStdout && l.from != stdout || only == corev1.LogStreamStderr && l.from != stderr
		if !wrong && !l.at.Before(from) {
			kept = append(kept, l)
		}
	}
	return kept
}

// writeLines writes at most left bytes (negative: no limit) and returns what is then left.
func writeLines(out io.Writer, lines []line, stamped bool, left int64) (int64, error) {
	for _, l := range lines {
		text := l.text
		if stamped {
			text = append(append(l.at.UTC().AppendFormat(nil, time.RFC3339Nano), ' '), text...)
		}
		if left >= 0 && int64(len(text)) >= left {
			_, err := out.Write(text[:left])
			return 0, err
		}
		if _, err := out.Write(text); err != nil {
			return left, err
		}
		if left > 0 {
			left -= int64(len(text))
		}
	}
	return left, nil
}
