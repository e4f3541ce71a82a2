// Package exposition reads what exporters of metrics write, Prometheus' text format, as samples for diagnose/doctor. It
// knows no metric: what one means is decided there. The command line calls it, with text of whoever runs the exporter:
// what it reads is bounded, and what it cannot read is an error that says where.
package exposition

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/berth-dev/berth/diagnose/doctor"
)

// MaxBytes bounds one text. 5,000 nodes with 8 GPUs and 40 metrics each write about 300 MB.
const MaxBytes = 512 << 20

// MaxSamples bounds what is kept of it: 25 metrics of 40,000 GPUs.
const MaxSamples = 1_000_000

// maxLine bounds one line: a sample with all its labels is a few hundred bytes.
const maxLine = 64 << 10

// Read reads the samples of a text whose names are to be kept. Comments are passed over, so that texts of several exporters may follow each other
// in one file; types are not known then, and not needed.
func Read(r io.Reader, keep func(name string) bool) ([]doctor.Sample, error) {
	var out []doctor.Sample
	b := &batch{lines: bufio.NewReaderSize(&bounded{r: r, left: MaxBytes}, maxLine)}
	for {
		text, err := b.next()
		if err != nil {
			return nil, err
		}
		if len(text) == 0 {
			return out, nil
		}
		if out, err = parse(out, text, b.first, keep); err != nil {
			return nil, err
		}
		if len(out) > MaxSamples {
			return nil, fmt.Errorf("there are more than %d samples of GPUs", MaxSamples)
		}
	}
}

// batch cuts the text into pieces of whole lines, so that a parser holds little at a time.
type batch struct {
	lines *bufio.Reader
	first int // line that the piece began with, from 1
	read  int // lines read
}

const batchBytes = 1 << 20

// next is the next piece; empty at the end.
func (b *batch) next() ([]byte, error) {
	var out bytes.Buffer
	b.first = b.read + 1
	for out.Len() < batchBytes {
		line, err := b.lines.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			return nil, fmt.Errorf("line %d is longer than %d bytes: this is no text of an exporter", b.read+1, maxLine)
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		b.read++
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 && trimmed[0] != '#' {
			out.Write(trimmed)
		}
		out.WriteByte('\n') // lines that are left out still count
		if err == io.EOF {
			break
		}
	}
	if len(bytes.TrimSpace(out.Bytes())) == 0 {
		if _, err := b.lines.Peek(1); err == nil {
			return b.next()
		}
		return nil, nil
	}
	return out.Bytes(), nil
}

func parse(out []doctor.Sample, text []byte, first int, keep func(string) bool) ([]doctor.Sample, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("text from line %d on: %w", first, err)
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if !keep(name) {
			continue
		}
		for _, m := range families[name].Metric {
			s := doctor.Sample{Name: name, Labels: make(map[string]string, len(m.Label))}
			for _, l := range m.Label {
				s.Labels[l.GetName()] = l.GetValue()
			}
			if m.Untyped == nil {
				continue // without types every line is a value by itself
			}
			s.Value = m.Untyped.GetValue()
			out = append(out, s)
		}
	}
	return out, nil
}

// bounded is a reader that fails where there is more than it may read.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("there are more than %d MiB of metrics", MaxBytes>>20)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
