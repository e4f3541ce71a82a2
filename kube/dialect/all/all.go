// Package all lists the dialects that the scheduler can read. It is a table and nothing else; kube/scheduler, controlplane's callers and
// the tests of the pages ask it.
package all

import (
	"slices"

	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/controllers"
	"github.com/berth-dev/berth/kube/dialect/coscheduling"
	"github.com/berth-dev/berth/kube/dialect/kai"
	"github.com/berth-dev/berth/kube/dialect/kueue"
	"github.com/berth-dev/berth/kube/dialect/volcano"
)

// Dialects are those that there are, by name.
func Dialects() []dialect.Dialect {
	return []dialect.Dialect{coscheduling.New(), kai.New(), kueue.New(), volcano.New()}
}

// Readers are all that the scheduler may read of other projects: the dialects, and workload controllers.
func Readers() []dialect.Dialect { return append(Dialects(), controllers.New()) }

// Names are those of the dialects.
func Names() []string {
	var out []string
	for _, d := range Dialects() {
		out = append(out, d.Name())
	}
	slices.Sort(out)
	return out
}

// Find is the dialect of the name, nil for none.
func Find(name string) dialect.Dialect {
	for _, d := range Dialects() {
		if d.Name() == name {
			return d
		}
	}
	return nil
}
