package kueue

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// The kinds that an administrator writes, beside ClusterQueues, LocalQueues and ResourceFlavors.
const (
	Cohorts         = "Cohort.kueue.x-k8s.io"
	PriorityClasses = "WorkloadPriorityClass.kueue.x-k8s.io"
)

const (
	// cohortPrefix keeps queues that are Cohorts apart from ClusterQueues, which may have the same name.
	cohortPrefix = "cohort-"
	// productLabel is the node label with a GPU's model, by which flavors are told apart.
	productLabel = "nvidia.com/gpu.product"
	gpuResource  = "nvidia.com/gpu"
	// ownDefault is what a ClusterQueue default is called here.
	ownDefault   = "kueue-default"
	hold         = "Hold"
	holdAndDrain = "HoldAndDrain"
	maxName      = 63
	maxFlavors   = 64
)

// clusterQueueSpec has the fields of a ClusterQueue that are understood, in v1beta1 and v1beta2.
type clusterQueueSpec struct {
	ResourceGroups    []resourceGroup       `json:"resourceGroups"`
	CohortName        string                `json:"cohortName"`
	Cohort            string                `json:"cohort"`
	QueueingStrategy  string                `json:"queueingStrategy"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
	Preemption        preemption            `json:"preemption"`
	FairSharing       fairSharing           `json:"fairSharing"`
	StopPolicy        string                `json:"stopPolicy"`
	AdmissionChecks   []string              `json:"admissionChecks"` // v1beta1
	ChecksStrategy    checks                `json:"admissionChecksStrategy"`
	Fungibility       fungibility           `json:"flavorFungibility"`
}

// fungibility is when the next flavor is tried, in the words of v1beta1 and v1beta2.
type fungibility struct {
	WhenCanBorrow  string `json:"whenCanBorrow"`  // Borrow, MayStopSearch, TryNextFlavor
	WhenCanPreempt string `json:"whenCanPreempt"` // Preempt, MayStopSearch, TryNextFlavor
}

type cohortSpec struct {
	ParentName     string          `json:"parentName"`
	Parent         string          `json:"parent"` // v1alpha1 and v1beta1
	ResourceGroups []resourceGroup `json:"resourceGroups"`
	FairSharing    fairSharing     `json:"fairSharing"`
}

type resourceGroup struct {
	CoveredResources []string `json:"coveredResources"`
	Flavors          []flavor `json:"flavors"`
}

type flavor struct {
	Name      string          `json:"name"`
	Resources []resourceQuota `json:"resources"`
}

type resourceQuota struct {
	Name           string             `json:"name"`
	NominalQuota   resource.Quantity  `json:"nominalQuota"`
	BorrowingLimit *resource.Quantity `json:"borrowingLimit"`
	LendingLimit   *resource.Quantity `json:"lendingLimit"`
}

type preemption struct {
	ReclaimWithinCohort string `json:"reclaimWithinCohort"`
	WithinClusterQueue  string `json:"withinClusterQueue"`
	BorrowWithinCohort  struct {
		Policy string `json:"policy"`
	} `json:"borrowWithinCohort"`
}

// checks are what has to be ready before a workload is let in.
type checks struct {
	AdmissionChecks []struct {
		Name      string   `json:"name"`
		OnFlavors []string `json:"onFlavors"`
	} `json:"admissionChecks"`
}

type fairSharing struct {
	Weight *resource.Quantity `json:"weight"`
}

// clusterQueue is what is kept of a ClusterQueue.
type clusterQueue struct {
	*clusterQueueSpec
	cohort string
}

// cohort is what is kept of a Cohort.
type cohort struct {
	parent string
	groups []resourceGroup
	fair   fairSharing
}

// quotas are what the queue has, as they count now: whether by flavor depends on others too.
func (q *clusterQueue) quotas(w dialect.World, others mix) []amount {
	return quotas(q.ResourceGroups, q.cohort, w, others, &dialect.Object{})
}

// amount is what is said of a resource, or as much of it as is of one flavor.
type amount struct {
	v1alpha1.QueueResource
	flavor string // "": of all
}

// of says whether both are of the same.
func (a *amount) of(o *amount) bool {
	return a.Name == o.Name && a.GPUModel == o.GPUModel && a.flavor == o.flavor
}

// ReadClusterQueue makes a queue of a ClusterQueue: nominal quotas of a resource's flavors are added up, and each flavor, or GPU model
// where flavors are that, has its own amounts besides. Without a cohort it may not exceed them. A cohort that nobody made is implied.
func ReadClusterQueue(o *unstructured.Unstructured, w dialect.World) dialect.Object {
	spec := &clusterQueueSpec{}
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", spec)}
	q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: berthName(o.GetName())}}
	in := spec.CohortName
	if in == "" {
		in = spec.Cohort
	}
	q.Spec.Parent = cohortQueue(in)
	q.Spec.Weight = spec.FairSharing.among(in, ClusterQueues, o.GetName(), w, &out)
	q.Spec.NamespaceSelector = spec.NamespaceSelector
	if spec.NamespaceSelector == nil { // none, where Berth means all
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}
	if s := v1alpha1.QueueingStrategy(spec.QueueingStrategy); s == v1alpha1.StrictFIFO { // the other is what is not said
		q.Spec.QueueingStrategy = s
	}
	q.Spec.StopPolicy = v1alpha1.StopPolicy(spec.StopPolicy)
	spec.Preemption.tell(in, &out)
	if !spec.Preemption.patient(in) && slices.ContainsFunc(spec.ResourceGroups, func(g resourceGroup) bool { return len(g.Flavors) > 1 }) {
		spec.Fungibility.tell(&out)
	}
	others := mixOf(w)
	own := quotas(spec.ResourceGroups, in, w, others, &out)
	out.Value = &clusterQueue{spec, in}
	amounts := own
	if w != nil {
		amounts = lentTo(own, o.GetName(), in, w, others)
		out.Shut = spec.shut(w)
	}
	q.Spec.Resources, out.Flavors = split(amounts)
	if out.Flavors != nil {
		out.Flavors.Groups, out.Flavors.QuotaFirst = flavorGroups(spec.ResourceGroups, in, w, others), spec.Fungibility.WhenCanBorrow == tryNext
	}
	if w != nil && in != "" && w.Object(Cohorts, "", in) == nil && out.Problem == "" {
		sums := &sums{mix: others}
		sums.addAll(amounts)
		sums.below(in, o.GetName(), w, 0)
		out.Implies = &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: cohortQueue(in)}}
		out.Implies.Spec.Weight = 1
		out.Implies.Spec.Resources, out.ImpliesFlavors = split(sums.capped(true))
	}
	return named(q, out)
}

// ReadCohort makes a queue of a Cohort, above those that name it. It has what they have and what it has itself; at the top nobody
// gets more than that.
func ReadCohort(o *unstructured.Unstructured, w dialect.World) dialect.Object {
	var spec cohortSpec
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", &spec)}
	q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: cohortQueue(o.GetName())}}
	parent := spec.ParentName
	if parent == "" {
		parent = spec.Parent
	}
	q.Spec.Parent = cohortQueue(parent)
	q.Spec.Weight = spec.FairSharing.among(parent, Cohorts, o.GetName(), w, &out)
	sums := &sums{mix: mixOf(w)}
	own := quotas(spec.ResourceGroups, o.GetName(), w, sums.mix, &out)
	sums.addAll(own)
	if w != nil {
		sums.below(o.GetName(), "", w, 0)
	}
	q.Spec.Resources, out.Flavors = split(sums.capped(parent == ""))
	out.Value = &cohort{parent, spec.ResourceGroups, spec.FairSharing}
	return named(q, out)
}

// maxDepth is how many Cohorts are above each other at most.
const maxDepth = 16

// below adds what is in the cohort, but for one ClusterQueue that is added already.
func (s *sums) below(name, but string, w dialect.World, depth int) {
	for _, o := range w.Objects(ClusterQueues, "") {
		if q, ok := o.Value.(*clusterQueue); ok && q.cohort == name && o.Name != but && o.Queue != nil {
			s.addAll(q.quotas(w, s.mix))
		}
	}
	for _, o := range w.Objects(Cohorts, "") {
		if c, ok := o.Value.(*cohort); ok && c.parent == name && depth < maxDepth {
			s.addAll(quotas(c.groups, o.Name, w, s.mix, &dialect.Object{}))
			s.below(o.Name, "", w, depth+1)
		}
	}
}

// addAll adds quotas; limits and what is lent hold where they are.
func (s *sums) addAll(list []amount) {
	for _, r := range list {
		i := slices.IndexFunc(s.list, func(e amount) bool { return e.of(&r) })
		if i < 0 {
			i = len(s.list)
			s.list = append(s.list, amount{v1alpha1.QueueResource{Name: r.Name, GPUModel: r.GPUModel, Quota: &resource.Quantity{}}, r.flavor})
		}
		s.list[i].Quota.Add(*r.Quota)
	}
}

// capped are the sums, in order, as limits too if nobody lends more.
func (s *sums) capped(top bool) []amount {
	sortResources(s.list)
	for i := range s.list {
		if top {
			limit := s.list[i].Quota.DeepCopy()
			s.list[i].Limit = &limit
		}
	}
	return s.list
}

// lentTo are the queue's resources with limits at what it has itself and all others lend it, where one of them does not lend all:
// Kueue counts quota, whatever nodes there are.
func lentTo(own []amount, name, in string, w dialect.World, others mix) []amount {
	for depth := 0; depth < maxDepth; depth++ { // to the top of the tree
		c, ok := valueOf(w, Cohorts, in).(*cohort)
		if !ok || c.parent == "" {
			break
		}
		in = c.parent
	}
	lent := &sums{mix: others}
	if in == "" || !lent.lendable(in, name, w, 0) {
		return own
	}
	out := slices.Clone(own)
	for i := range out {
		r := &out[i]
		most := r.Quota.DeepCopy()
		if j := slices.IndexFunc(lent.list, func(e amount) bool { return e.of(r) }); j >= 0 {
			most.Add(*lent.list[j].Quota)
		}
		if r.Limit == nil || r.Limit.Cmp(most) > 0 {
			r.Limit = &most
		}
	}
	return out
}

// lendable adds what is lent in the cohort, but for what one ClusterQueue lends; some says whether anybody does not lend all it has.
func (s *sums) lendable(in, but string, w dialect.World, depth int) (some bool) {
	add := func(list []amount) {
		list = slices.Clone(list)
		for i := range list {
			if l := list[i].Lend; l != nil {
				list[i].Quota, some = l, true
			}
		}
		s.addAll(list)
	}
	for _, o := range w.Objects(ClusterQueues, "") {
		if q, ok := o.Value.(*clusterQueue); ok && q.cohort == in && o.Name != but && o.Queue != nil {
			add(q.quotas(w, s.mix))
		}
	}
	if c, ok := valueOf(w, Cohorts, in).(*cohort); ok {
		add(quotas(c.groups, in, w, s.mix, &dialect.Object{}))
	}
	for _, o := range w.Objects(Cohorts, "") {
		if c, ok := o.Value.(*cohort); ok && c.parent == in && depth < maxDepth {
			some = s.lendable(o.Name, but, w, depth+1) || some
		}
	}
	return some
}

func valueOf(w dialect.World, kind, name string) any {
	if o := w.Object(kind, "", name); o != nil {
		return o.Value
	}
	return nil
}

// shut is why the ClusterQueue lets nobody in, in the words of its condition Active.
func (spec *clusterQueueSpec) shut(w dialect.World) dialect.Shut {
	if spec.StopPolicy == hold || spec.StopPolicy == holdAndDrain {
		return dialect.Shut{Reason: "Stopped", Message: "Can't admit new workloads: is stopped."}
	}
	for _, g := range spec.ResourceGroups {
		for _, f := range g.Flavors {
			if w.Object(ResourceFlavors, "", f.Name) == nil {
				return dialect.Shut{Reason: "FlavorNotFound", Message: "Can't admit new workloads: references missing ResourceFlavor(s): " + f.Name + "."}
			}
		}
	}
	names := slices.Clone(spec.AdmissionChecks)
	for _, c := range spec.ChecksStrategy.AdmissionChecks {
		names = append(names, c.Name)
	}
	for _, name := range names {
		if w.Object(AdmissionChecks, "", name) == nil {
			return dialect.Shut{Reason: "AdmissionCheckNotFound", Message: "Can't admit new workloads: references missing AdmissionCheck(s): " + name + "."}
		}
	}
	return dialect.Shut{}
}

// localShut is why nobody comes in through the LocalQueue.
func localShut(local *dialect.Object, w dialect.World) dialect.Shut {
	spec, ok := local.Value.(*LocalQueue)
	if !ok || w == nil {
		return dialect.Shut{}
	}
	if spec.StopPolicy == hold || spec.StopPolicy == holdAndDrain {
		return dialect.Shut{Reason: "Stopped", Message: "LocalQueue is stopped"}
	}
	switch o := w.Object(ClusterQueues, "", spec.ClusterQueue); {
	case o == nil:
		return dialect.Shut{Reason: "ClusterQueueDoesNotExist", Message: "Can't submit new workloads to clusterQueue"}
	case o.Shut.Reason != "" || o.Problem != "":
		return dialect.Shut{Reason: "ClusterQueueIsInactive", Message: "Can't submit new workloads to clusterQueue"}
	}
	return dialect.Shut{}
}

// named is the object with its queue, whose name must be one.
func named(q *v1alpha1.BerthQueue, out dialect.Object) dialect.Object {
	if len(q.Name) > maxName {
		out.Problem = fmt.Sprintf("the queue's name %s is longer than %d characters, the limit", q.Name, maxName)
	}
	if out.Problem == "" {
		out.Queue = q
	}
	return out
}

// cohortQueue is the queue of a Cohort, "" for none.
func cohortQueue(name string) string {
	if name == "" {
		return ""
	}
	return cohortPrefix + name
}

// berthName is what a ClusterQueue is called as a queue of Berth's, which has a default itself.
func berthName(name string) string {
	if name == v1alpha1.DefaultQueue {
		return ownDefault
	}
	return name
}

// patient says whether nobody is evicted for workloads of the queue, as is the default. in is its cohort; "": none, and nobody who borrows.
func (p preemption) patient(in string) bool {
	never := func(v string) bool { return v == "" || v == "Never" }
	return never(p.WithinClusterQueue) && (in == "" || never(p.ReclaimWithinCohort))
}

// tell says which policies Berth does not have: where anybody is evicted, it reclaims what is borrowed, and preempts by priority.
func (p preemption) tell(in string, out *dialect.Object) {
	if p.patient(in) {
		return
	}
	if in == "" {
		p.ReclaimWithinCohort, p.BorrowWithinCohort.Policy = "Any", ""
	}
	if p.ReclaimWithinCohort != "Any" {
		out.Unread = append(out.Unread, "spec.preemption.reclaimWithinCohort (Any)")
	}
	if p.WithinClusterQueue != "LowerPriority" {
		out.Unread = append(out.Unread, "spec.preemption.withinClusterQueue (LowerPriority)")
	}
	if v := p.BorrowWithinCohort.Policy; v != "" && v != "Never" {
		out.Unread = append(out.Unread, "spec.preemption.borrowWithinCohort (Never)")
	}
}

// quotas are what the groups say of each resource, in the order in which they first name it, and of each GPU model or flavor after that.
// in is the cohort; "": none, so that nothing is borrowed.
func quotas(groups []resourceGroup, in string, w dialect.World, others mix, out *dialect.Object) []amount {
	sums := &sums{}
	flavors, borrows := 0, in != ""
	for i := range groups {
		g := &groups[i]
		apart := g.apart(in, w, others)
		names := g.merged(w)
		for k, f := range g.Flavors {
			if flavors++; flavors > maxFlavors {
				out.Problem = fmt.Sprintf("spec.resourceGroups: more than %d flavors, the limit", maxFlavors)
				return nil
			}
			model := modelOf(f.Name, w)
			for _, r := range f.Resources {
				if r.NominalQuota.Sign() < 0 || r.BorrowingLimit != nil && r.BorrowingLimit.Sign() < 0 || r.LendingLimit != nil && r.LendingLimit.Sign() < 0 {
					out.Problem = fmt.Sprintf("spec.resourceGroups: amounts of %s in flavor %s are below 0", r.Name, f.Name)
					return nil
				}
				sums.add(r, "", "", borrows)
				switch {
				case apart:
					sums.add(r, "", names[k], borrows)
				case model != "" && r.Name == gpuResource && len(g.Flavors) > 1:
					sums.add(r, model, "", borrows)
				}
			}
			if apart && names[k] != f.Name {
				out.Unread = append(out.Unread, "spec.resourceGroups.flavors."+f.Name+" (the node labels of "+names[k]+": its quota is added to that)")
			}
		}
	}
	plain := slices.DeleteFunc(slices.Clone(sums.list), func(a amount) bool { return a.flavor != "" })
	if len(plain) > dialect.MaxResources {
		out.Problem = fmt.Sprintf("it names %d resources and models: the limit is %d", len(plain), dialect.MaxResources)
		return nil
	}
	sortResources(sums.list)
	return sums.list
}

// sortResources has resources as a whole first.
func sortResources(list []amount) {
	slices.SortStableFunc(list, func(a, b amount) int {
		switch {
		case (a.GPUModel == "") == (b.GPUModel == ""):
			return 0
		case a.GPUModel == "":
			return -1
		}
		return 1
	})
}

// modelOf is the GPU model that a flavor's nodes have; "": it does not say.
func modelOf(name string, w dialect.World) string {
	if w == nil {
		return ""
	}
	if o := w.Object(ResourceFlavors, "", name); o != nil {
		if f, ok := o.Value.(*flavorSpec); ok {
			return f.NodeLabels[productLabel]
		}
	}
	return ""
}

// sums adds up amounts by resource, model and flavor.
type sums struct {
	list []amount
	mix  mix
}

func (s *sums) add(r resourceQuota, model, flavor string, borrows bool) {
	of := amount{v1alpha1.QueueResource{Name: r.Name, GPUModel: model, Quota: &resource.Quantity{}, Limit: &resource.Quantity{}}, flavor}
	i := slices.IndexFunc(s.list, func(e amount) bool { return e.of(&of) })
	if i < 0 {
		i = len(s.list)
		s.list = append(s.list, of)
	}
	e := &s.list[i]
	lend := r.NominalQuota
	if r.LendingLimit != nil && r.LendingLimit.Cmp(lend) < 0 {
		lend = *r.LendingLimit
	}
	switch {
	case e.Lend != nil:
		e.Lend.Add(lend)
	case r.LendingLimit != nil: // of those before all may be lent
		sum := e.Quota.DeepCopy()
		sum.Add(lend)
		e.Lend = &sum
	}
	e.Quota.Add(r.NominalQuota)
	limit := r.NominalQuota.DeepCopy()
	if borrows && r.BorrowingLimit != nil {
		limit.Add(*r.BorrowingLimit)
	}
	switch {
	case borrows && r.BorrowingLimit == nil:
		e.Limit = nil // and stays so: one flavor without a limit has none for the sum
	case e.Limit != nil:
		e.Limit.Add(limit)
	}
}

// flavorSpec has the fields of a ResourceFlavor that are understood.
type flavorSpec struct {
	NodeLabels  map[string]string   `json:"nodeLabels"`
	NodeTaints  []corev1.Taint      `json:"nodeTaints"`
	Tolerations []corev1.Toleration `json:"tolerations"`
	Topology    string              `json:"topologyName"` // levels are node labels, whoever names them
}

func ReadResourceFlavor(o *unstructured.Unstructured) dialect.Object {
	spec := &flavorSpec{}
	return dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", spec), Value: spec}
}

// LocalQueue is what a LocalQueue says.
type LocalQueue struct {
	ClusterQueue string `json:"clusterQueue"`
	StopPolicy   string `json:"stopPolicy"`
}

func ReadLocalQueue(o *unstructured.Unstructured) dialect.Object {
	spec := &LocalQueue{}
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", spec), Value: spec, Entrance: true}
	if spec.StopPolicy == holdAndDrain {
		out.Unread = append(out.Unread, "spec.stopPolicy (Jobs are suspended; pods without a Job stay)")
	}
	if spec.ClusterQueue == "" {
		out.Problem = "spec.clusterQueue is missing"
	}
	return out
}

// ReadPriorityClass reads a WorkloadPriorityClass, whose Value is its number.
func ReadPriorityClass(o *unstructured.Unstructured) dialect.Object {
	n, ok := dialect.Number(o.Object, "value")
	if !ok || n != int64(int32(n)) {
		return dialect.Object{Problem: "value: want a whole number of 32 bits"}
	}
	return dialect.Object{Value: int32(n)}
}
