package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/devices"
)

// Options say what to read. Config is required.
type Options struct {
	Config *rest.Config // is copied; its limits on requests are not heeded
	// Namespace is read alone where a kind may not be listed in the whole cluster. "": there is no such place.
	Namespace string
	// Targets picks the pods whose logs are wanted, of all that was read; nil: none.
	Targets func(*facts.Facts) []*corev1.Pod
	// Patience is how long one answer may take; 0: 10 s. All together may take as long as the context lives.
	Patience time.Duration
	// Progress hears how many kinds were read, of how many. Calls come one at a time.
	Progress func(done, total int)
}

const (
	patience = 10 * time.Second
	atOnce   = 8 // kinds that are read at the same time
)

// Gather reads every kind of facts.Kinds that the cluster serves and the caller may read, and then the kinds beside these. The kinds are read one
// beside the other, so the facts are of one moment only as far as reading is quick.
func Gather(ctx context.Context, o Options) (*facts.Facts, error) {
	o.Patience = cmp.Or(o.Patience, patience)
	c, err := connect(o.Config)
	if err != nil {
		return nil, err
	}
	version, err := c.greet(ctx, o.Patience)
	if err != nil {
		return nil, err
	}
	served := sync.OnceValue(func() served { return c.discover(ctx, o.Patience) })
	answers, err := c.readAll(ctx, o, served)
	if err != nil {
		return nil, err
	}
	f := &facts.Facts{Kubernetes: version, At: c.time.latest(), Matches: devices.NewMatcher(), NewAllocator: devices.NewAllocator()}
	for i, k := range facts.Kinds {
		for _, object := range answers[i].objects {
			k.Add(&f.Objects, object)
		}
		f.Unseen = append(f.Unseen, answers[i].unseen...)
	}
	c.readSchedulerConfigs(ctx, o, f)
	s := served()
	c.readBeside(ctx, o, f, &s)
	if o.Targets != nil {
		c.readLogs(ctx, f, o.Targets(f))
	}
	return f, nil
}

// answer is what the cluster said of one kind.
type answer struct {
	objects []facts.Object
	unseen  []facts.Unseen
	err     error // why nothing was read
}

// readAll reads every kind. The answers are in the order of diagnose.Kinds.
func (c *cluster) readAll(ctx context.Context, o Options, served func() served) ([]answer, error) {
	go served() // asked for when the first kinds are through
	var progress sync.Mutex
	done := 0
	answers := make([]answer, len(facts.Kinds))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, k := range facts.Kinds {
		g.Go(func() error {
			answers[i] = c.read(ctx, o, k, served)
			progress.Lock()
			defer progress.Unlock()
			if done++; o.Progress != nil {
				o.Progress(done, len(answers))
			}
			return nil
		})
	}
	_ = g.Wait() // what failed is in the answers
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return nil, err
	}
	return answers, c.refused(answers)
}

// refused is the error that makes the answers worthless: the caller has no name here, or none of the kinds that every
// cluster has could be read, and not for want of rights.
func (c *cluster) refused(answers []answer) error {
	if slices.ContainsFunc(answers, func(a answer) bool { return isUnknown(a.err) }) {
		return c.unknown()
	}
	var failed error
	anonymous := false
	for i, k := range facts.Kinds {
		err := answers[i].err
		switch {
		case k.Group != "":
		case isAnonymous(err):
			anonymous = true
		case err == nil || apierrors.IsForbidden(err):
			return nil
		default:
			failed = err
		}
	}
	if anonymous {
		return c.unknown()
	}
	return fmt.Errorf("nothing can be read from the API server at %s: %s; try again, and look at its health if that does not help", c.host, reason(failed))
}
