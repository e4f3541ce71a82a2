package capacity

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// DumpVersion is of the dump's shape.
//
//	1  2026-11-17  first
const DumpVersion = 1

type dump struct {
	Version    int       `json:"version"`
	At         time.Time `json:"at,omitzero"`
	Unobserved int64     `json:"unobservedGPUMilliseconds,omitempty"`
	GPUs       []GPU     `json:"gpus"`
	Sums       []dumpSum `json:"sums"`
}

type dumpSum struct {
	Account
	Currency      string `json:"currency,omitempty"`
	Milli         int64  `json:"gpuMilliseconds"`
	UnpricedMilli int64  `json:"unpricedGPUMilliseconds,omitempty"`
	Spent         Micro  `json:"spent,omitempty"`
	Rest          uint64 `json:"rest,omitempty"`
}

// Dump is the ledger as JSON, the same bytes for the same ledger.
func (l *Ledger) Dump() ([]byte, error) {
	d := dump{Version: DumpVersion, At: l.at.UTC(), Unobserved: l.unobserved, GPUs: l.GPUs(), Sums: []dumpSum{}}
	for i := range d.GPUs {
		d.GPUs[i].Since = d.GPUs[i].Since.UTC()
		if d.GPUs[i].Since.After(d.At) {
			d.GPUs[i].Since = d.At // the clock went back since then
		}
	}
	for _, s := range l.Sums() {
		d.Sums = append(d.Sums, dumpSum{s.Account, s.Currency, s.GPUMilliseconds, s.UnpricedGPUMilliseconds, s.Spent, l.sums[key{s.Account, s.Currency}].rest})
	}
	return json.Marshal(d)
}

// Load reads a dump. The time between it and the next observation counts as any other: up to MaxGap in the states that
// were dumped, beyond that as unobserved.
func Load(text []byte) (*Ledger, error) {
	var d dump
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	if d.Version != DumpVersion {
		return nil, fmt.Errorf("the ledger has version %d, and this program reads %d", d.Version, DumpVersion)
	}
	l := New()
	for _, s := range d.Sums {
		k := key{s.Account, s.Currency}
		if l.sums[k] != nil || s.Milli < 0 || s.UnpricedMilli < 0 || s.Spent < 0 || s.Rest >= milliHour {
			return nil, errors.New("the ledger has an account twice, or one below zero")
		}
		l.sums[k] = &sum{milli: s.Milli, unpricedMilli: s.UnpricedMilli, spent: s.Spent, rest: s.Rest}
	}
	if err := l.Sync(d.At, d.GPUs); err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	if len(l.GPUs()) != len(d.GPUs) || d.Unobserved < 0 {
		return nil, errors.New("the ledger does not add up")
	}
	l.unobserved, l.started = d.Unobserved, !d.At.IsZero()
	return l, nil
}
