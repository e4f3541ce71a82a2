package convert

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Departure is when nodes go away for good, and with what.
type Departure struct {
	At   time.Time
	With string // as people read it
}

// DepartureOf is when the node goes away; false: it does not, or does not say when in words that can be read.
func DepartureOf(n *corev1.Node) (Departure, bool) {
	at, err := time.Parse(time.RFC3339, n.Annotations[v1alpha1.KeyLeavesAt])
	return Departure{at.UTC(), cmp.Or(n.Annotations[v1alpha1.KeyLeavesWith], "its nodes")}, err == nil
}

// departure begins the names of bookings of nodes that go away. Those of queues have a queue's name, which has no space.
const departure = "end of "

// mostWith is how much is shown of what nodes go away with.
const mostWith = 128

// Name is that of the booking, for people too.
func (d Departure) Name() string {
	return departure + clipped(d.With, mostWith) + " at " + d.At.Format("2006-01-02 15:04:05 MST")
}

// IsDeparture says whether a booking of the name is one of nodes that go away.
func IsDeparture(name string) bool { return strings.HasPrefix(name, departure) }
