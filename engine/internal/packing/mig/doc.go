// Package mig measures how often a request for a MIG slice is refused although enough slices are free, on A100 cards with
// departures, under several policies.
//
// Slices have physical places: a 3g.20gb covers half of the eight memory slots of a card and begins at slot 0 or 4, so a 1g.5gb in
// the wrong slot keeps two of them from existing. A policy chooses card and slot; what runs is never moved. The study is
// Berth's own: arrivals are Poisson, lives exponential, sizes drawn from a mix.
//
// The package is a tool: its tests and the command engine/internal/packing call it, and no program of Berth's contains it.
package mig
