package join

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/check/l1"
	"github.com/berth-dev/berth/diagnose/check/l2"
	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
)

// Input is what was read.
type Input struct {
	Facts *facts.Facts
	// Uses says which GPUs were measured to be busy; nil: nobody measured.
	Uses []doctor.Use
}

// Report is the account of one moment.
type Report struct {
	At   time.Time
	GPUs []capacity.GPU
	// Said is what is known of a unit beyond its cause, by capacity.ID's Unit.
	Said map[string]Said
	// Nodes are the names of the nodes that units are, by capacity.ID's Unit; a machine that is no node is not among them.
	Nodes map[string]string
	// Holders are the pods that hold a GPU, as namespace/name: several where they share it, none where nobody tells which.
	Holders map[capacity.ID][]string
	// Reservations are all of them, by name, those included that are not paid for now.
	Reservations []Reserved
}

// Said is what is wrong with the GPUs of a unit.
type Said struct {
	Message string // with names and numbers; no capital, no full stop
	Fix     string // what to do, in a sentence without a full stop
	Command string // that does it; "": none can be given
	// Ask is who can mend it, as the objects tell: whose reservation, pool, DaemonSet or cordon it is. Owners are kinds of teams, of which a
	// platform has several; this names the one.
	Ask string
}

// Of makes the account.
func Of(in Input) Report {
	w := newWorld(in)
	r := Report{At: in.Facts.At, Said: make(map[string]Said), Nodes: make(map[string]string), Holders: make(map[capacity.ID][]string)}
	for i := range w.reservations {
		r.add(w.reserved(&w.reservations[i]))
		r.Reservations = append(r.Reservations, w.reservations[i].Reserved)
	}
	for _, m := range w.machines {
		if m.paidBy == nil {
			r.add(w.unit("machine/"+m.name, m, nil))
		}
	}
	slices.SortFunc(r.GPUs, func(a, b capacity.GPU) int {
		return cmp.Or(strings.Compare(a.Unit, b.Unit), cmp.Compare(a.Index, b.Index))
	})
	return r
}

func (r *Report) add(units []unit) {
	for _, u := range units {
		r.GPUs = append(r.GPUs, u.gpus...)
		if u.said != (Said{}) {
			r.Said[u.gpus[0].Unit] = u.said
		}
		if u.node != "" {
			r.Nodes[u.gpus[0].Unit] = u.node
		}
		for i, pods := range u.pods {
			if len(pods) > 0 {
				r.Holders[u.gpus[i].ID] = pods
			}
		}
	}
}

// unit is one machine's worth of GPUs that is paid for; it has at least one.
type unit struct {
	gpus []capacity.GPU
	said Said
	node string     // "": it is none
	pods [][]string // that hold each GPU
}

// checkOf is the check of a cause, which has its owner and its remedy; nil where the cause is the account's own.
func checkOf(cause string) *check.Check {
	for _, list := range [][]*check.Check{l1.Checks, l2.Checks} {
		for _, c := range list {
			if string(c.Cause) == cause {
				return c
			}
		}
	}
	return nil
}

// ownerOf is whose the cause is.
func ownerOf(cause string) string {
	if c := checkOf(cause); c != nil {
		return string(c.Owner)
	}
	switch cause {
	case "":
		return ""
	case capacity.NotRequested, notStarted, wrongType:
		return string(check.Capacity)
	case capacity.IdleAllocation:
		return string(check.User)
	case capacity.NotMeasured:
		return string(check.Platform)
	}
	return string(check.Nobody)
}

// Remedy is what usually helps against the cause, in a sentence.
func Remedy(cause string) string {
	if c := checkOf(cause); c != nil {
		return c.Remedy
	}
	switch cause {
	case capacity.NotRequested:
		return "Place more work, have the pool keep more machines, or give the reservation back."
	case notStarted:
		return "Wait until it starts, or let the pool use machines on demand."
	case wrongType:
		return "Have a pool of the reserved type draw on the reservation."
	case capacity.Idle:
		return "Place more work, or release the machines that no reservation holds."
	case capacity.IdleAllocation:
		return "Ask the owner of the pod whether it still works; berth jobs names it."
	case capacity.NotMeasured:
		return "Give --metrics what dcgm-exporter writes."
	}
	return ""
}
