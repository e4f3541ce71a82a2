package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/record"
)

// showAt prints one decision.
func (o *replayOptions) showAt(log *record.Log, at time.Time) error {
	done := o.patience("making the decisions again")
	c, err := log.At(at)
	done()
	if err != nil {
		return err
	}
	if o.workload != "" {
		return o.showWorkload(c)
	}
	if o.output == "json" {
		return o.printJSON(c.Plan)
	}
	fmt.Fprintf(o.streams.Out, "%s: %s, %d waiting (%s)\n", stamp(c.Now), plural(len(c.Plan.Starts), "start"), len(c.Plan.Waiting), source(c))
	_, err = fmt.Fprint(o.streams.Out, engine.Describe(c.Plan))
	return err
}

// patience shows people what is being done once it has taken two seconds, until what it returns is called.
func (o *replayOptions) patience(step string) (done func()) {
	p := newProgress(o.streams.Err)
	slow := time.AfterFunc(2*time.Second, func() { p.doing(step) })
	return func() {
		slow.Stop()
		p.stop()
	}
}

// source says where a decision was found.
func source(c record.Cycle) string {
	return fmt.Sprintf("cycle %d of %s, recorded by berth %s", c.Number, filepath.Base(c.Segment.Path), c.Segment.Berth)
}

// showWorkload prints what the decision was about one workload: where it starts, else why it waits.
func (o *replayOptions) showWorkload(c record.Cycle) error {
	key := workloadNamed(o.workload, c.State.Dump())
	if key == "" {
		return exitError{code: exitFailed, err: fmt.Errorf("there was no workload %q at %s", o.workload, stamp(c.Now))}
	}
	e := c.State.Explain(key, c.Now, 0)
	if o.output == "json" {
		return o.printJSON(e)
	}
	fmt.Fprintf(o.streams.Out, "%s (%s)\n", stamp(c.Now), source(c))
	starts := slices.DeleteFunc(slices.Clone(c.Plan.Starts), func(s engine.Start) bool { return s.Gang != key })
	if len(starts) > 0 {
		fmt.Fprint(o.streams.Out, engine.Describe(engine.Plan{Starts: starts}))
		return nil
	}
	fmt.Fprint(o.streams.Out, engine.DescribeExplanation(e))
	return nil
}

// workloadNamed is the key of the workload that was asked for: by that key, or by the name of one of its pods. It is
// "" where there was none.
func workloadNamed(asked string, snap engine.Snapshot) string {
	for _, g := range snap.Gangs {
		if means(asked, g.Key) {
			return g.Key
		}
	}
	for _, p := range snap.Pods {
		if p.Key == asked && !p.Foreign {
			return cmp.Or(p.Gang, p.Key)
		}
	}
	return ""
}

// means says whether somebody who asks for a workload means the one of the key: namespace/kind/name, of which the kind
// may be left out.
func means(asked, key string) bool {
	namespace, rest, _ := strings.Cut(key, "/")
	_, name, ok := strings.Cut(rest, "/")
	return asked == key || ok && asked == namespace+"/"+name
}
