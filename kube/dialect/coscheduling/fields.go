package coscheduling

import "github.com/berth-dev/berth/kube/dialect"

// Fields is the table of docs/from-coscheduling.md.
func (coscheduling) Fields() []dialect.Field {
	const ok, differs, no = dialect.Understood, dialect.Differs, dialect.NotYet
	return []dialect.Field{
		{Kind: "PodGroup", Field: "spec.minMember", Is: differs, Note: "decided when the workload enters its queue; later edits do not count"},
		{Kind: "PodGroup", Field: "spec.minResources", Is: differs, Note: "not needed: a gang starts when its pods find places"},
		{Kind: "PodGroup", Field: "spec.scheduleTimeoutSeconds", Is: differs, Note: "not needed: a gang that waits keeps no places, so there is nothing to give up"},
		{Kind: "PodGroup", Field: "status", Is: ok, Note: "phase, running, succeeded, failed, scheduleStartTime"},
		{Kind: "ElasticQuota", Field: "spec.min", Is: differs, Note: "quota of the namespace; others may use what it does not, up to all there is, where the plugin stops them at the sum of all minimums"},
		{Kind: "ElasticQuota", Field: "spec.max", Is: ok, Note: "limit of the namespace"},
		{Kind: "ElasticQuota", Field: "status.used", Is: ok},
		{Kind: "ElasticQuota", Field: "a second in a namespace", Is: no, Note: "the first by name counts; told"},
		{Kind: "label", Field: "scheduling.x-k8s.io/pod-group", Is: ok, Note: "of pods that name the plugins' scheduler, Berth, or with --dialect none; the pod waits until the PodGroup exists"},
		{Kind: "label", Field: "pod-group.scheduling.sigs.k8s.io/name, /min-available", Is: ok, Note: "as before there were PodGroups"},
		{Kind: "kind", Field: "PodGroup, ElasticQuota of scheduling.sigs.k8s.io", Is: no, Note: "the group's name until release 0.23"},
		{Kind: "kind", Field: "AppGroup, NetworkTopology, NodeResourceTopology, SySched", Is: no, Note: "other plugins"},
		{Kind: "behaviour", Field: "pods without a schedulerName", Is: ok, Note: "those of a PodGroup, or of a namespace with an ElasticQuota, get scheduler-plugins-scheduler by an admission policy of --dialect"},
		{Kind: "behaviour", Field: "RayClusters with the label ray.io/gang-scheduling-enabled", Is: ok, Note: "their pods get scheduler-plugins-scheduler by an admission policy of --dialect, and start together"},
		{Kind: "label", Field: "keys on controllers", Is: no, Note: "the plugins read pods alone; told where the pods do not have the same"},
		{Kind: "behaviour", Field: "pods in the back of the queue go with their group", Is: ok, Note: "a gang has one turn"},
	}
}
