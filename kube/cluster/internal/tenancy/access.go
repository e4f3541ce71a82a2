package tenancy

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxQueuesWritten and maxQueuesText bound what is written on a namespace; one that may use more has AnyQueue.
	maxQueuesWritten, maxQueuesText = 100, 4096
	// AnyQueue, on a namespace, lets the scheduler decide alone which queues it may use.
	AnyQueue = "*"
)

// Access is a namespace whose annotation about the queues that it may use is missing or wrong.
type Access struct {
	Name   string
	UID    types.UID
	Queues string // what the annotation is to say
}

// Stale are the namespaces whose annotation about queues is missing or wrong, by name. One without it that may use all
// queues needs none.
func (t *Tenancy) Stale() []Access {
	var open []string // to all
	for _, name := range t.Names() {
		if t.queues[name].open == nil {
			open = append(open, name)
		}
	}
	var out []Access
	for _, name := range slices.Sorted(maps.Keys(t.namespaces)) {
		n := t.namespaces[name]
		if n.ending {
			continue
		}
		want := t.mayUse(name, open)
		if n.says && want == n.queues || !n.says && want == AnyQueue {
			continue
		}
		out = append(out, Access{name, n.uid, want})
	}
	return out
}

// mayUse lists the queues that the namespace may use, of which open are open to all.
func (t *Tenancy) mayUse(namespace string, open []string) string {
	may := slices.Clone(open)
	for name, q := range t.queues {
		if q.open[namespace] {
			may = append(may, name)
		}
	}
	slices.Sort(may)
	text := strings.Join(may, ",")
	if len(may) == len(t.queues) || len(may) > maxQueuesWritten || len(text) > maxQueuesText {
		return AnyQueue
	}
	return text
}
