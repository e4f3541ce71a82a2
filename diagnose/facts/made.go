package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/controllers"
)

// made is what objects of workload controllers say of their pods, by kind and namespace/name.
type made map[string]*dialect.Object

func (m made) Object(kind, namespace, name string) *dialect.Object {
	return m[kind+" "+namespace+"/"+name]
}
func (made) Objects(string, string) []*dialect.Object { return nil }
func (made) Priority(string) (int32, bool)            { return 0, false }

func readMade(f *Facts) made {
	out, reader := make(made), controllers.New()
	for _, k := range reader.Kinds() {
		for _, u := range f.Foreign[k.Name()] {
			o := reader.Read(u, out)
			out[k.Name()+" "+u.GetNamespace()+"/"+u.GetName()] = &o
		}
	}
	return out
}

// ours are the names of the pods' schedulers that Berth is.
type ours []string

func (f *Facts) ours() ours {
	return Derive(f, func(f *Facts) ours {
		if f.Served != nil && len(f.Served.Names) > 0 {
			return f.Served.Names
		}
		if len(f.Answers) > 0 {
			return f.Answers
		}
		return f.ServedBy("berth")
	})
}

// Ours says whether Berth schedules the pod.
func (f *Facts) Ours(p *corev1.Pod) bool { return slices.Contains(f.ours(), p.Spec.SchedulerName) }

// Made is what the controller of another project that made the pod says of it: which gang it is in, as the scheduler reads it. It is nil
// for a pod whose maker was not read, or that Berth does not schedule.
func (f *Facts) Made(p *corev1.Pod) *dialect.Terms {
	if !f.Ours(p) && !f.standsIn(p.Spec.SchedulerName) {
		return nil
	}
	pod := &dialect.Pod{Pod: p}
	for at, up := f.Controller(p), 0; at != nil && up < 2; at, up = f.Controller(at), up+1 {
		if o, ok := convert.OwnerOf(at); ok && o.Namespace == p.Namespace {
			pod.Owners = append(pod.Owners, dialect.Owner{Kind: o.Kind, Name: o.Name, UID: o.UID, Meta: metav1.ObjectMeta{}, By: o.By, Coupled: o.Coupled})
		}
	}
	return controllers.New().Pod(pod, Derive(f, readMade))
}

// standsIn says whether the scheduler of the name is one whose dialect is spoken.
func (f *Facts) standsIn(scheduler string) bool {
	return slices.ContainsFunc(Derive(f, readSpoken).dialects, func(d dialect.Dialect) bool {
		return slices.Contains(f.Speaks, d.Name()) && slices.Contains(d.SchedulerNames(), scheduler)
	})
}
