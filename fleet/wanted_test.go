package fleet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func names(nodes []want) []string {
	var out []string
	for _, w := range nodes {
		out = append(out, w.pool.Name+"/"+w.name())
	}
	return out
}

func TestWantedIsInOrderOfPoolAndIndex(t *testing.T) {
	named := plainPool("a", 0)
	named.Spec.Nodes, named.Spec.NodeNames = nil, []string{"zoe", "abe"}
	nodes, problems := wanted([]*v1alpha1.Pool{plainPool("c", 2), named, plainPool("b", 0)})
	if diff := cmp.Diff([]string{"a/zoe", "a/abe", "c/c-0", "c/c-1"}, names(nodes)); diff != "" {
		t.Error(diff)
	}
	if len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
}

func TestWantedNamesWhatIsWrong(t *testing.T) {
	thief := plainPool("b", 0)
	thief.Spec.Nodes, thief.Spec.NodeNames = nil, []string{"a-1", "mine"}
	unknown := gpuPool("c", 1)
	unknown.Spec.GPUs[0].Model = "h1000"
	nodes, problems := wanted([]*v1alpha1.Pool{unknown, thief, plainPool("a", 2), plainPool("d", 99_999)})
	if got := names(nodes)[:4]; !cmp.Equal(got, []string{"a/a-0", "a/a-1", "b/mine", "d/d-0"}) {
		t.Errorf("nodes %v", got)
	}
	if len(nodes) != maxNodes {
		t.Errorf("%d nodes, want no more than %d", len(nodes), maxNodes)
	}
	for pool, say := range map[string]string{
		"b": "node a-1 belongs to pool a",
		"c": "unknown model",
		"d": "the fleet has addresses for 16384 nodes",
	} {
		if !strings.Contains(problems[pool], say) {
			t.Errorf("pool %s: %q does not say %q", pool, problems[pool], say)
		}
	}
	if problems["a"] != "" {
		t.Errorf("pool a is blamed: %s", problems["a"])
	}
}
