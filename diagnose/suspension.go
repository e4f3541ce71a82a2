package diagnose

import "github.com/berth-dev/berth/diagnose/facts"

// queued says whether Kueue has a say in the owners: it names a queue, or has a Workload.
func (c *Case) queued() bool {
	const label = "kueue.x-k8s.io/queue-name"
	for _, m := range c.Owners {
		if m.GetLabels()[label] != "" || m.GetAnnotations()[label] != "" {
			return true
		}
		for _, o := range c.Children(m) {
			if k := facts.KindOfObject(o); k != nil && k.Kind == "Workload" {
				return true
			}
		}
		for _, w := range c.Foreign["Workload.kueue.x-k8s.io"] {
			for _, r := range w.GetOwnerReferences() {
				if r.UID == m.GetUID() {
					return true
				}
			}
		}
	}
	return false
}
