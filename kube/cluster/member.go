package cluster

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect"
)

// member is a pod as last seen.
type member struct {
	key      string
	workload string
	raw      *corev1.Pod    // as it is in the API
	pod      *corev1.Pod    // with what its controllers say; once decided about, as was decided
	terms    *terms         // nil: it has not been decided about
	foreign  *dialect.Terms // how a dialect reads it; nil: none does
	made     *dialect.Terms // which gang the object that made it says it is in; nil: none says so
	revoked  string         // the terms, as text, that it had and does not have any more
	ours     bool
	oneModel bool // it asks for GPUs of one model, whichever it is
	adopted  bool // where it is ours: another scheduler's, taken for ours in a Model
	takes    engine.Resources
	given    bool        // to the engine
	lacks    []string    // why it cannot be: claims that are not there
	value    *engine.Pod // as last given
	// told is the version of what the engine was told last under the key: the value, or that there is none. It passes over what is not newer.
	told uint64
}

// same says whether two versions of a pod are the same to the engine.
func same(a, b *engine.Pod) bool {
	c := *a
	c.Version = b.Version
	return reflect.DeepEqual(&c, b)
}

func (m *member) pays() bool    { return m.ours && !m.adopted }
func (m *member) inGang() bool  { return m.ours && m.workload != m.key }
func (m *member) waiting() bool { return m.pod.Spec.NodeName == "" && m.pod.DeletionTimestamp == nil }
func (m *member) bound() bool   { return m.pod.Spec.NodeName != "" }

// members are the pods that are known, and their workloads. Pods that are over or gated are not among them.
type members struct {
	pods  map[string]*member            // by key
	gangs map[string]map[string]*member // ours alone, by gang, then by key
	// grouped are those of ours that name a PodGroup, whether that counts or not, by the key of the gang that it is, or would be without a
	// parent, then by key.
	grouped map[string]map[string]*member
	fresh   map[string]bool // workloads with pods that changed since the last plan was told
}

func newMembers() *members {
	return &members{pods: make(map[string]*member), gangs: make(map[string]map[string]*member), grouped: make(map[string]map[string]*member), fresh: make(map[string]bool)}
}

// sorted returns the gang's members by key.
func (s *members) sorted(gang string) []*member {
	members := s.gangs[gang]
	out := make([]*member, 0, len(members))
	for _, key := range slices.Sorted(maps.Keys(members)) {
		out = append(out, members[key])
	}
	return out
}

// of returns the workload's pods by key: those of a gang, or the one that is a workload of its own.
func (s *members) of(workload string) []*member {
	if m := s.pods[workload]; m != nil && !m.inGang() {
		return []*member{m}
	}
	return s.sorted(workload)
}

// alone returns pods of ours that are workloads of their own and known to the engine, by key.
func (s *members) alone(which func(key string) bool) []*member {
	var out []*member
	for key, m := range s.pods {
		if m.ours && m.given && !m.inGang() && which(key) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *member) int { return strings.Compare(a.key, b.key) })
	return out
}

func podsOf(members []*member) []*corev1.Pod {
	out := make([]*corev1.Pod, len(members))
	for i, m := range members {
		out[i] = m.pod
	}
	return out
}

func keyOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// namespaceOf is that of a pod or a gang, by its key.
func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}

// insert enters a value under two keys, and cut takes it away.
func insert[A, B comparable, V any](m map[A]map[B]V, a A, b B, v V) {
	if m[a] == nil {
		m[a] = make(map[B]V)
	}
	m[a][b] = v
}

func cut[A, B comparable, V any](m map[A]map[B]V, a A, b B) {
	delete(m[a], b)
	if len(m[a]) == 0 {
		delete(m, a)
	}
}
