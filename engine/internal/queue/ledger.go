package queue

import "github.com/berth-dev/berth/engine/internal/cluster"

// Ledger tells what queues are entitled to and what they have used.
type Ledger struct {
	m       *cluster.Model
	sharing sharing // room to work fair shares out in; nothing in it is of any meaning afterwards
}

func NewLedger(m *cluster.Model) *Ledger { return &Ledger{m: m} }
