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
	left, tail := int64(-1), int64(-1)
	if o.LimitBytes != nil {
		left = *o.LimitBytes
	}
	if o.TailLines != nil {
		tail = *o.TailLines
	}
	next, end := j.span(startOf(o, time.Now()), tail)
	for o.Follow || next < end {
		lines, then, more := j.since(next)
		var err error
		if left, err = writeLines(out, selected(lines, o), o.Timestamps, left); err != nil || left == 0 || more == nil {
			return err
		}
		next = then
		if !o.Follow && next >= end {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
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

// selected keeps the lines of the wanted stream. The input is not changed.
func selected(lines []line, o *corev1.PodLogOptions) []line {
	only := corev1.LogStreamAll
	if o.Stream != nil {
		only = *o.Stream
	}
	if only == corev1.LogStreamAll {
		return lines
	}
	var kept []line
	for _, l := range lines {
		wrong := only == corev1.LogStreamStdout && l.from != stdout || only == corev1.LogStreamStderr && l.from != stderr
		if !wrong {
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
