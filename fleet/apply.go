package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Apply makes the Pools of a running cluster equal to the given ones, and says what it did, one
// line per changed pool in order of name: "pool/a100 created", "... configured" or "... deleted".
// With dryRun it only says it. On an error the lines are those that were carried out, and doing
// it again is safe.
func Apply(ctx context.Context, cfg *rest.Config, pools []v1alpha1.Pool, dryRun bool) ([]string, error) {
	client, err := newPoolClient(cfg)
	if err != nil {
		return nil, err
	}
	have, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pools: %w", err)
	}
	var lines []string
	for _, ch := range compare(have.Items, pools) {
		if !dryRun {
			err = ch.carryOut(ctx, client)
		}
		if err != nil {
			return lines, fmt.Errorf("pool %s: %w", ch.pool.Name, err)
		}
		lines = append(lines, fmt.Sprintf("pool/%s %s", ch.pool.Name, ch.verb))
	}
	return lines, nil
}

// Pools lists the Pools of a cluster in order of name.
func Pools(ctx context.Context, cfg *rest.Config) ([]v1alpha1.Pool, error) {
	client, err := newPoolClient(cfg)
	if err != nil {
		return nil, err
	}
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pools: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// change is what has to happen to one pool. For configured and deleted, pool carries the
// identity and version that the decision was made on.
type change struct {
	verb string
	pool *v1alpha1.Pool
}

const (
	created    = "created"
	configured = "configured"
	deleted    = "deleted"
)

// compare says what makes have equal to want, in order of name. Defaults are filled in on both
// sides first: writing down a default is no change.
func compare(have, want []v1alpha1.Pool) []change {
	old, next := byName(have), byName(want)
	all := maps.Clone(old)
	maps.Copy(all, next)
	var changes []change
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if ch, any := compareOne(old[name], next[name]); any {
			changes = append(changes, ch)
		}
	}
	return changes
}

func compareOne(old, next *v1alpha1.Pool) (ch change, any bool) {
	switch {
	case next == nil:
		return change{deleted, old}, true
	case old == nil:
		return change{created, bare(next)}, true
	case equality.Semantic.DeepEqual(withDefaults(old).Spec, withDefaults(next).Spec):
		return change{}, false
	}
	out := old.DeepCopy()
	out.Spec = *next.Spec.DeepCopy()
	return change{configured, out}, true
}

func (ch change) carryOut(ctx context.Context, client *poolClient) error {
	switch ch.verb {
	case created:
		return client.Create(ctx, ch.pool)
	case configured:
		return client.Update(ctx, ch.pool)
	case deleted:
		if err := client.Delete(ctx, ch.pool.Name); !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func byName(pools []v1alpha1.Pool) map[string]*v1alpha1.Pool {
	out := make(map[string]*v1alpha1.Pool, len(pools))
	for i := range pools {
		out[pools[i].Name] = &pools[i]
	}
	return out
}

func withDefaults(pool *v1alpha1.Pool) *v1alpha1.Pool {
	out := pool.DeepCopy()
	v1alpha1.Default(out)
	return out
}
