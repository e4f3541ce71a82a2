package submit

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

// fits is how many of so many pods of a workload, of the manifests or of the cluster, have places at once on the cluster without other
// work. It is false where nothing was planned, for kinds that autoscalers scale otherwise, and where one pod has no place: what is in
// its way is said of the workload.
func (c *checker) fits(target facts.Object, pods int64) (int, bool) {
	if c.full.blind() || pods > workload.MostPods {
		return 0, false
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(target)
	if err != nil {
		return 0, false
	}
	switch target.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.ReplicaSet:
		if k := facts.KindOfObject(target); k != nil {
			object["apiVersion"], object["kind"] = k.GroupVersion().String(), k.Kind
		}
	default:
		return 0, false
	}
	if err := unstructured.SetNestedField(object, pods, "spec", "replicas"); err != nil {
		return 0, false
	}
	uid := func() types.UID {
		c.uids++
		return types.UID(fmt.Sprintf("scaled-%d", c.uids))
	}
	unstructured.RemoveNestedField(object, "metadata", "uid")
	w, _, err := workload.Of(object, workload.Options{At: c.now.At, Namespace: target.GetNamespace(), Nodes: c.now.Nodes, UID: uid})
	if err != nil || w == nil || len(w.Parts) != 1 {
		return 0, false
	}
	c.emptyCluster()
	given, was := &Item{Object: object}, []facts.Object{target}
	for _, s := range c.subs { // as the API server admits its pods
		if s.Object != nil && facts.RefTo(s.Object) == facts.RefTo(target) {
			given.Admitted, was = s.item.Admitted, objectsOf(s.Workload)
		}
	}
	scaled := &submission{item: given, Workload: w}
	c.admit(scaled, &w.Parts[0], c.now)
	for i, p := range w.Parts[0].Pods { // names of their own: those that exist are in the model
		p.Name = fmt.Sprintf("%s-scaled-%d", target.GetName(), i)
	}
	is := metaOf(objectsOf(w))
	c.alone.model.Set(is...)
	n := len(c.tryAlone(w.Parts[0].Pods).where)
	c.alone.model.Delete(is...)
	c.alone.model.Set(metaOf(was)...)
	return n, n > 0
}

// reclaimed names what may take back what the work is given, in words; "": nothing is known to.
func reclaimed(t *Terms) string {
	if t == nil || !t.Preemptible || len(t.Borrowed) == 0 {
		return ""
	}
	return "what queue " + t.Queue + " borrows may be reclaimed"
}
