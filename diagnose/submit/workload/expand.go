package workload

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
)

// expanders make the pods of kinds whose fields say it in a way of their own.
var expanders = map[schema.GroupKind]func(*maker, *Workload, *unstructured.Unstructured) error{
	{Group: "grove.io", Kind: "PodCliqueSet"}:                          (*maker).podCliqueSet,
	{Group: "sparkoperator.k8s.io", Kind: "SparkApplication"}:          (*maker).sparkApplication,
	{Group: "sparkoperator.k8s.io", Kind: "ScheduledSparkApplication"}: (*maker).sparkApplication,
	{Group: "nvidia.com", Kind: "DynamoGraphDeployment"}:               (*maker).dynamoGraph,
	{Group: "sparkoperator.k8s.io", Kind: "SparkConnect"}:              (*maker).sparkApplication,
	{Group: "serving.kserve.io", Kind: "InferenceService"}:             (*maker).inferenceService,
	{Group: "serving.kserve.io", Kind: "LLMInferenceService"}:          (*maker).llmInferenceService,
	{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}:       (*maker).leaderWorkerSet,
	{Group: "ray.io", Kind: "RayCluster"}:                              (*maker).rayCluster,
	{Group: "ray.io", Kind: "RayJob"}:                                  (*maker).rayJob,
	{Group: "ray.io", Kind: "RayCronJob"}:                              (*maker).rayCronJob,
	{Group: "ray.io", Kind: "RayService"}:                              (*maker).rayService,
	{Group: "argoproj.io", Kind: "Workflow"}:                           nothing, // its pods are made one after the other, from what those before them say
	{Group: "argoproj.io", Kind: "CronWorkflow"}:                       nothing,
	{Group: trainerGroup, Kind: "TrainJob"}:                            (*maker).trainJob,
	{Group: trainerGroup, Kind: runtimeKind}:                           nothing,
	{Group: trainerGroup, Kind: clusterRuntimeKind}:                    nothing,
	{Group: "flow.volcano.sh", Kind: "JobTemplate"}:                    nothing,
	{Group: "kueue.x-k8s.io", Kind: "Workload"}:                        nothing, // it stands for pods that somebody else makes
	{Group: "argoproj.io", Kind: "WorkflowTemplate"}:                   nothing,
	{Group: "argoproj.io", Kind: "ClusterWorkflowTemplate"}:            nothing,
	{Group: "serving.kserve.io", Kind: "ServingRuntime"}:               nothing,
	{Group: "serving.kserve.io", Kind: "ClusterServingRuntime"}:        nothing,
	{Group: "serving.kserve.io", Kind: "LLMInferenceServiceConfig"}:    nothing,
}

// Pattern says whether objects of the kind are what others are made after, and have no pods themselves.
func Pattern(k schema.GroupKind) bool {
	for _, suffix := range []string{"Runtime", "Template", "Config"} {
		if strings.HasSuffix(k.Kind, suffix) && expanders[k] != nil {
			return true
		}
	}
	return false
}

func nothing(*maker, *Workload, *unstructured.Unstructured) error { return nil }

// clique is what matters here of a clique of a PodCliqueSet.
type clique struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Topology    map[string]any    `json:"topologyConstraint"`
	Spec        struct {
		Replicas     *int32         `json:"replicas"`
		MinAvailable *int32         `json:"minAvailable"`
		PodSpec      corev1.PodSpec `json:"podSpec"`
	} `json:"spec"`
}

// cliqueGroup is cliques that are scaled together.
type cliqueGroup struct {
	Name         string         `json:"name"`
	Cliques      []string       `json:"cliqueNames"`
	Replicas     *int32         `json:"replicas"`
	MinAvailable *int32         `json:"minAvailable"`
	Topology     map[string]any `json:"topologyConstraint"`
}

// podCliqueSet makes the pods of a PodCliqueSet of Grove, and its PodGangs: one for each replica, with the cliques that are in no scaling
// group and the first replicas of those groups, and one for each further replica of a group (ai-dynamo/grove, commit fcc3b3bb,
// operator/internal/controller/podcliqueset/components/podgang and operator/api/common/namegen.go). A clique without minAvailable needs all
// its pods, a group without one needs one of its replicas.
func (m *maker) podCliqueSet(w *Workload, u *unstructured.Unstructured) error {
	var spec struct {
		Replicas *int32 `json:"replicas"`
		Template struct {
			Cliques  []clique       `json:"cliques"`
			Groups   []cliqueGroup  `json:"podCliqueScalingGroups"`
			Topology map[string]any `json:"topologyConstraint"`
		} `json:"template"`
	}
	if err := decode(u.Object["spec"], &spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	if lacks := cliquesLack(u); len(lacks) > 0 {
		w.Unplanned = fmt.Sprintf("%s is planned without the claims of devices that its operator gives its pods by %s", facts.RefTo(u), strings.Join(lacks, " and "))
	}
	of := make(map[string]*cliqueGroup)
	for i := range spec.Template.Groups {
		for _, name := range spec.Template.Groups[i].Cliques {
			of[name] = &spec.Template.Groups[i]
		}
	}
	for i := range min(max(0, ptr.Deref(spec.Replicas, 1)), mostTemplates) {
		base := fmt.Sprintf("%s-%d", u.GetName(), i)
		gangs := &podGangs{m: m, w: w, in: u.GetNamespace(), topology: map[string]map[string]any{base: spec.Template.Topology}}
		for k := range spec.Template.Cliques {
			c := &spec.Template.Cliques[k]
			path := fmt.Sprintf("/spec/template/cliques/%d/spec/podSpec", k)
			g := of[c.Name]
			if g == nil {
				gangs.add(u, c, base, base+"-"+c.Name, path)
				continue
			}
			least := max(1, ptr.Deref(g.MinAvailable, 1))
			for r := range min(max(0, ptr.Deref(g.Replicas, 1)), mostTemplates) {
				group, gang := fmt.Sprintf("%s-%s", base, g.Name), base
				if r >= least {
					gang = fmt.Sprintf("%s-%d", group, r-least)
					gangs.topology[gang] = g.Topology
				}
				gangs.add(u, c, gang, fmt.Sprintf("%s-%d-%s", group, r, c.Name), path)
			}
			if g.Topology != nil {
				gangs.topology[base] = g.Topology
			}
		}
		gangs.finish()
	}
	return nil
}

// cliquesLack are the ways by which the operator gives pods of the PodCliqueSet claims: the set, its scaling groups and its cliques share
// claims among their pods, and have channels of NVLink between nodes (operator/internal/mnnvl).
func cliquesLack(u *unstructured.Unstructured) (out []string) {
	const group = "grove.io/mnnvl-group"
	joins := func(name any) bool { return name != nil && name != "" && name != "none" }
	shares, nvlink := false, joins(u.GetAnnotations()[group])
	var in func(at any)
	in = func(at any) {
		switch at := at.(type) {
		case map[string]any:
			list, _ := at["resourceSharing"].([]any)
			keys, _ := at["annotations"].(map[string]any)
			shares, nvlink = shares || len(list) > 0, nvlink || joins(keys[group])
			for _, below := range at { //archtest:any-order it asks whether there is one
				in(below)
			}
		case []any:
			for _, below := range at {
				in(below)
			}
		}
	}
	in(u.Object["spec"])
	if shares {
		out = append(out, "resourceSharing")
	}
	if nvlink {
		out = append(out, group)
	}
	return out
}

// podGangs collects the PodGangs of one replica.
type podGangs struct {
	m        *maker
	w        *Workload
	in       string // namespace
	names    []string
	groups   map[string][]any
	topology map[string]map[string]any // by gang
}

// add makes the pods of a clique in the gang.
func (g *podGangs) add(u *unstructured.Unstructured, c *clique, gang, called, path string) {
	t := &corev1.PodTemplateSpec{Spec: c.Spec.PodSpec}
	t.Labels, t.Annotations = maps.Clone(c.Labels), maps.Clone(c.Annotations)
	if t.Labels == nil {
		t.Labels = make(map[string]string)
	}
	t.Labels["grove.io/podgang"], t.Labels["grove.io/podclique"], t.Labels["app.kubernetes.io/part-of"] = gang, called, u.GetName()
	n := int(ptr.Deref(c.Spec.Replicas, 1))
	p := g.m.replicaSet(strings.TrimPrefix(called, u.GetName()+"-"), u, called, path, t, n)
	p.Bare = true
	g.w.add(p)
	var refs []any
	for _, pod := range p.Pods {
		refs = append(refs, map[string]any{"namespace": pod.Namespace, "name": pod.Name})
	}
	if g.groups == nil {
		g.groups = make(map[string][]any)
	}
	if g.groups[gang] == nil {
		g.names = append(g.names, gang)
	}
	group := map[string]any{"name": called, "minReplicas": int64(ptr.Deref(c.Spec.MinAvailable, int32(min(n, math.MaxInt32)))), "podReferences": refs}
	if c.Topology != nil {
		group["topologyConstraint"] = map[string]any{}
	}
	g.groups[gang] = append(g.groups[gang], group)
}

func (g *podGangs) finish() {
	for _, name := range g.names {
		spec := map[string]any{"podgroups": g.groups[name]}
		if g.topology[name] != nil {
			spec["topologyConstraint"] = map[string]any{}
		}
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "spec": spec}}
		o.SetNamespace(g.in)
		o.SetName(name)
		o.SetUID(g.m.next())
		g.w.Also = append(g.w.Also, o)
	}
}

// sparkRole is what matters here of the driver or the executors of a SparkApplication.
type sparkRole struct {
	Instances      *int32            `json:"instances"`
	Cores          *int32            `json:"cores"`
	CoreRequest    string            `json:"coreRequest"`
	CoreLimit      string            `json:"coreLimit"`
	Memory         string            `json:"memory"`
	MemoryOverhead string            `json:"memoryOverhead"`
	Labels         map[string]string `json:"labels"`
	Annotations    map[string]string `json:"annotations"`
	GPU            *struct {
		Name     string `json:"name"`
		Quantity int64  `json:"quantity"`
	} `json:"gpu"`
	Template *corev1.PodTemplateSpec `json:"template"`

	// These have the names that they have in a pod.
	corev1.PodSpec `json:",inline"`
}

// sparkApplication makes the driver and the executors of a Spark application (kubeflow/spark-operator, commit 38082f33,
// api/v1beta2/sparkapplication_types.go; Spark on Kubernetes for the defaults: 1 core, 1 GiB, and a tenth of the memory on top, or four
// tenths where it runs no JVM, of at least 384 MiB). A SparkConnect has a server in place of the driver. Who schedules a batch, if the
// application says so, is the scheduler of its pods; with Volcano the operator makes a PodGroup of at least one pod, in the queue and of the
// priority that the application says (internal/scheduler/volcano/scheduler.go).
func (m *maker) sparkApplication(w *Workload, u *unstructured.Unstructured) error {
	var spec struct {
		Type           string `json:"type"`
		Image          string `json:"image"`
		OverheadFactor string `json:"memoryOverheadFactor"`
		BatchScheduler string `json:"batchScheduler"`
		Batch          struct {
			Queue         string         `json:"queue"`
			PriorityClass string         `json:"priorityClassName"`
			Resources     map[string]any `json:"resources"`
		} `json:"batchSchedulerOptions"`
		Driver   sparkRole `json:"driver"`
		Server   sparkRole `json:"server"`
		Executor sparkRole `json:"executor"`
		Dynamic  struct {
			Enabled bool   `json:"enabled"`
			Initial *int32 `json:"initialExecutors"`
			Least   *int32 `json:"minExecutors"`
		} `json:"dynamicAllocation"`
		NodeSelector map[string]string `json:"nodeSelector"`
	}
	from, at := u.Object["spec"], "/spec"
	if u.GetKind() == "ScheduledSparkApplication" { // the next run
		template, _, _ := unstructured.NestedMap(u.Object, "spec", "template")
		from, at = template, "/spec/template"
	}
	if err := decode(from, &spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	factor, err := strconv.ParseFloat(spec.OverheadFactor, 64)
	if err != nil || !(factor >= 0 && factor <= 10) { // a value that Spark does not accept, or that cannot be meant
		if factor = 0.1; spec.Type == "Python" || spec.Type == "R" {
			factor = 0.4
		}
	}
	first, driver := "driver", spec.Driver
	if u.GetKind() == "SparkConnect" {
		first, driver = "server", spec.Server
	}
	executors := ptr.Deref(spec.Executor.Instances, 1)
	if spec.Dynamic.Enabled {
		executors = max(ptr.Deref(spec.Dynamic.Initial, 0), ptr.Deref(spec.Dynamic.Least, 0), ptr.Deref(spec.Executor.Instances, 0))
	}
	group := ""
	switch {
	case spec.BatchScheduler == volcanoScheduler:
		group = "spark-" + u.GetName() + "-pg"
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": map[string]any{
			"minMember": int64(1), "queue": cmp.Or(spec.Batch.Queue, "default"), "priorityClassName": spec.Batch.PriorityClass}}}
		o.SetNamespace(u.GetNamespace())
		o.SetName(group)
		o.SetUID(m.next())
		w.Also = append(w.Also, o)
	case spec.Batch.Queue != "" || spec.Batch.PriorityClass != "" || len(spec.Batch.Resources) > 0:
		w.Vain = append(w.Vain, dotted(at)+".batchSchedulerOptions (those for Volcano alone are read)")
	}
	for _, role := range []struct {
		name string
		of   *sparkRole
		pods int32
	}{{first, &driver, 1}, {"executor", &spec.Executor, executors}} {
		t, err := role.of.template(spec.Image, factor)
		if err != nil {
			return fmt.Errorf("spec.%s: %w", role.name, err)
		}
		t.Spec.SchedulerName = cmp.Or(t.Spec.SchedulerName, spec.BatchScheduler)
		if t.Spec.NodeSelector == nil {
			t.Spec.NodeSelector = spec.NodeSelector
		}
		t.Labels["spark-role"] = role.name
		if group != "" {
			metav1.SetMetaDataAnnotation(&t.ObjectMeta, "scheduling.k8s.io/group-name", group)
		}
		n := int(role.pods)
		if suspended(u) {
			n = 0
		}
		p := m.replicaSet(role.name, u, u.GetName()+"-"+role.name, at+"/"+role.name, t, n)
		p.Made = true
		w.add(p)
	}
	return nil
}

// template is a pod of the role.
func (r *sparkRole) template(image string, factor float64) (*corev1.PodTemplateSpec, error) {
	t := &corev1.PodTemplateSpec{}
	if r.Template != nil {
		t = r.Template.DeepCopy()
	}
	own := r.PodSpec.DeepCopy()
	if t.Spec.NodeSelector == nil {
		t.Spec.NodeSelector = own.NodeSelector
	}
	if t.Spec.Affinity == nil {
		t.Spec.Affinity = own.Affinity
	}
	t.Spec.Tolerations = append(t.Spec.Tolerations, own.Tolerations...)
	t.Spec.SchedulerName = cmp.Or(t.Spec.SchedulerName, own.SchedulerName)
	t.Spec.PriorityClassName = cmp.Or(t.Spec.PriorityClassName, own.PriorityClassName)
	if t.Labels == nil {
		t.Labels = make(map[string]string)
	}
	maps.Copy(t.Labels, r.Labels)
	if r.Annotations != nil {
		t.Annotations = maps.Clone(r.Annotations)
	}
	memory, err := javaMemory(cmp.Or(r.Memory, "1g"))
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	more := max(int64(float64(memory>>20)*factor), 384) << 20 // in whole MiB, as Spark counts
	if r.MemoryOverhead != "" {
		if more, err = javaMemory(r.MemoryOverhead); err != nil {
			return nil, fmt.Errorf("memoryOverhead: %w", err)
		}
	}
	cpu, err := resource.ParseQuantity(cmp.Or(r.CoreRequest, fmt.Sprint(max(1, ptr.Deref(r.Cores, 1)))))
	if err != nil {
		return nil, fmt.Errorf("coreRequest: %w", err)
	}
	requests := corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: *resource.NewQuantity(memory+more, resource.BinarySI)}
	limits := corev1.ResourceList{corev1.ResourceMemory: requests[corev1.ResourceMemory]}
	if r.CoreLimit != "" {
		if limits[corev1.ResourceCPU], err = resource.ParseQuantity(r.CoreLimit); err != nil {
			return nil, fmt.Errorf("coreLimit: %w", err)
		}
	}
	if r.GPU != nil && r.GPU.Name != "" && r.GPU.Quantity > 0 {
		limits[corev1.ResourceName(r.GPU.Name)] = *resource.NewQuantity(r.GPU.Quantity, resource.DecimalSI)
		requests[corev1.ResourceName(r.GPU.Name)] = limits[corev1.ResourceName(r.GPU.Name)]
	}
	if len(t.Spec.Containers) == 0 {
		t.Spec.Containers = []corev1.Container{{Name: "spark", Image: cmp.Or(image, "spark")}}
	}
	c := &t.Spec.Containers[0]
	c.Name, c.Image = cmp.Or(c.Name, "spark"), cmp.Or(c.Image, image, "spark")
	if c.Resources.Limits == nil {
		c.Resources.Limits = make(corev1.ResourceList)
	}
	if c.Resources.Requests == nil {
		c.Resources.Requests = make(corev1.ResourceList)
	}
	maps.Copy(c.Resources.Limits, limits)
	maps.Copy(c.Resources.Requests, requests)
	return t, nil
}

// javaMemory reads a size as Spark has it: a number with k, m, g, t or p for powers of 1,024, and MiB where there is none.
func javaMemory(text string) (int64, error) {
	number := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(text)), "b")
	shift := 20
	if at := strings.IndexAny(number, "kmgtp"); at >= 0 {
		shift = 10 * (1 + strings.IndexByte("kmgtp", number[at]))
		if rest := number[at+1:]; rest != "" && rest != "i" {
			return 0, fmt.Errorf("%q is no size such as 512m or 4g", text)
		}
		number = number[:at]
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>(shift+8) { // with ten times as much on top it is still a size
		return 0, fmt.Errorf("%q is no size such as 512m or 4g", text)
	}
	return n << shift, nil
}

// inferenceService makes the pods of an InferenceService of KServe: those of the predictor, the transformer and the explainer, each as
// often as its minReplicas says, or once (kserve/kserve, commit aaac4e29, pkg/apis/serving/v1beta1). A component is the spec of a pod, in which
// a model server may stand in place of containers; one that asks for nothing gets 1 CPU and 2 GiB (config/configmap/inferenceservice.yaml).
func (m *maker) inferenceService(w *Workload, u *unstructured.Unstructured) error {
	for _, name := range []string{"predictor", "transformer", "explainer"} {
		part, ok, err := unstructured.NestedMap(u.Object, "spec", name)
		if err != nil || !ok {
			continue
		}
		var spec corev1.PodSpec
		if err := decode(part, &spec); err != nil {
			return fmt.Errorf("spec.%s: %w", name, err)
		}
		if len(spec.Containers) == 0 {
			server := serverIn(part)
			if server == nil {
				continue
			}
			var c corev1.Container
			if err := decode(server, &c); err != nil {
				return fmt.Errorf("spec.%s: %w", name, err)
			}
			spec.Containers = []corev1.Container{c}
		}
		c := &spec.Containers[0]
		c.Name, c.Image = cmp.Or(c.Name, "kserve-container"), cmp.Or(c.Image, "runtime")
		if len(c.Resources.Requests)+len(c.Resources.Limits) == 0 {
			all := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("2Gi")}
			c.Resources = corev1.ResourceRequirements{Requests: all, Limits: all.DeepCopy()}
		}
		over, err := spreadOver(part, &spec)
		if err != nil {
			return fmt.Errorf("spec.%s.%w", name, err)
		}
		n := 1
		if least, ok := number(part["minReplicas"]); ok {
			n = least
		}
		t := &corev1.PodTemplateSpec{Spec: spec}
		t.Labels = map[string]string{"serving.kserve.io/inferenceservice": u.GetName(), "component": name}
		p := m.replicaSet(name, u, u.GetName()+"-"+name, "/spec/"+name, t, n)
		p.Made = true
		w.add(p)
		if over != nil && over.nodes > 1 {
			t := &corev1.PodTemplateSpec{Spec: over.worker}
			t.Labels = map[string]string{"serving.kserve.io/inferenceservice": u.GetName(), "component": name + "-worker"}
			p := m.replicaSet(name+"-worker", u, u.GetName()+"-"+name+"-worker", "/spec/"+name+"/workerSpec", t, times(n, over.nodes-1))
			p.Made = true
			w.add(p)
		}
	}
	return nil
}

// dynamoPart is what matters here of a component of a DynamoGraphDeployment, as nvidia.com/v1beta1 has it and, under other names, v1alpha1.
type dynamoPart struct {
	Name      string                  `json:"name"`
	Replicas  *int32                  `json:"replicas"`
	Template  *corev1.PodTemplateSpec `json:"podTemplate"`
	Multinode struct {
		Nodes int32 `json:"nodeCount"`
	} `json:"multinode"`

	Resources struct {
		Requests map[string]any `json:"requests"` // names and quantities, and under custom more of them
		Limits   map[string]any `json:"limits"`
	} `json:"resources"`
	Extra struct {
		corev1.PodSpec `json:",inline"`
		Main           *corev1.Container `json:"mainContainer"`
	} `json:"extraPodSpec"`
}

// dynamoGraph makes the pods of a DynamoGraphDeployment: of each component as many as it has replicas, times the nodes that one is spread
// over (ai-dynamo/dynamo, commit bb3100e6, deploy/operator/api). What its operator adds to a container that is not written out is not known:
// it asks for nothing here.
func (m *maker) dynamoGraph(w *Workload, u *unstructured.Unstructured) error {
	var spec struct {
		Components []dynamoPart          `json:"components"`
		Services   map[string]dynamoPart `json:"services"`
	}
	if err := decode(u.Object["spec"], &spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	for i := range spec.Components {
		c := &spec.Components[i]
		if c.Template == nil {
			c.Template = &corev1.PodTemplateSpec{}
		}
		m.dynamoPods(w, u, c, fmt.Sprintf("/spec/components/%d/podTemplate", i))
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Services)) {
		c := spec.Services[name]
		c.Name, c.Template = name, &corev1.PodTemplateSpec{Spec: c.Extra.PodSpec}
		main := corev1.Container{Name: "main"}
		if c.Extra.Main != nil {
			main = *c.Extra.Main
		}
		main.Resources = c.resources(main.Resources)
		c.Template.Spec.Containers = append([]corev1.Container{main}, c.Template.Spec.Containers...)
		had := len(w.Parts)
		m.dynamoPods(w, u, &c, "/spec/services/"+escape(name))
		for i := range w.Parts[had:] {
			w.Parts[had+i].Made = true
		}
	}
	return nil
}

// resources are those of the main container, in which gpu is a GPU of NVIDIA's.
func (c *dynamoPart) resources(of corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := *of.DeepCopy()
	for _, list := range []struct {
		from map[string]any
		to   *corev1.ResourceList
	}{{c.Resources.Requests, &out.Requests}, {c.Resources.Limits, &out.Limits}} {
		custom, _ := list.from["custom"].(map[string]any)
		for _, amounts := range []map[string]any{list.from, custom} {
			for _, name := range slices.Sorted(maps.Keys(amounts)) {
				q, err := resource.ParseQuantity(fmt.Sprint(amounts[name]))
				if err != nil {
					continue
				}
				if *list.to == nil {
					*list.to = make(corev1.ResourceList)
				}
				if name == "gpu" {
					name = "nvidia.com/gpu"
				}
				(*list.to)[corev1.ResourceName(name)] = q
			}
		}
	}
	return out
}

func (m *maker) dynamoPods(w *Workload, u *unstructured.Unstructured, c *dynamoPart, path string) {
	t := c.Template.DeepCopy()
	if len(t.Spec.Containers) == 0 {
		t.Spec.Containers = []corev1.Container{{Name: "main"}}
	}
	t.Spec.Containers[0].Image = cmp.Or(t.Spec.Containers[0].Image, "runtime")
	if t.Labels == nil {
		t.Labels = make(map[string]string)
	}
	t.Labels["nvidia.com/dynamo-graph-deployment-name"], t.Labels["nvidia.com/dynamo-component"] = u.GetName(), c.Name
	called, replicas := u.GetName()+"-"+strings.ToLower(c.Name), ptr.Deref(c.Replicas, 1)
	if c.Multinode.Nodes > 1 {
		m.servers(w, u, c.Name, called, path, &leaderWorkerTemplate{Size: &c.Multinode.Nodes, Worker: *t}, replicas)
		return
	}
	w.add(m.replicaSet(c.Name, u, called, path, t, int(max(0, replicas))))
}

// servers makes replicas of a server of several pods as the LeaderWorkerSet that the operator makes of them.
func (m *maker) servers(w *Workload, u *unstructured.Unstructured, name, called, path string, t *leaderWorkerTemplate, replicas int32) {
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
		"spec": map[string]any{"replicas": int64(max(0, replicas)), "leaderWorkerTemplate": map[string]any{"size": int64(atLeast(t.Size, 1))}},
	}}
	m.below(set, u, called)
	set.SetLabels(u.GetLabels())
	set.SetAnnotations(u.GetAnnotations())
	w.Also = append(w.Also, set)
	inner := &Workload{}
	m.leaderWorkerGroups(inner, set, t, int(max(0, replicas)))
	for _, p := range inner.Parts {
		p.Name, p.Above, p.Template, p.Made = name+"/"+p.Name, set, path, true
		w.add(p)
	}
}

// llmService is what matters here of the pods of an LLMInferenceService, or of those that prefill for it.
type llmService struct {
	Replicas    *int32            `json:"replicas"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Template    *corev1.PodSpec   `json:"template"`
	Worker      *corev1.PodSpec   `json:"worker"`
	Parallelism struct {
		Data      *int32 `json:"data"`
		DataLocal *int32 `json:"dataLocal"`
		Pipeline  *int32 `json:"pipeline"`
	} `json:"parallelism"`
	Prefill *llmService `json:"prefill"`
}

// size is how many pods one server has (kserve/kserve, commit aaac4e29, pkg/apis/serving/v1alpha2, GetSize).
func (s *llmService) size() int32 {
	p := &s.Parallelism
	switch {
	case ptr.Deref(p.Data, 0) > 0 || ptr.Deref(p.DataLocal, 0) > 0:
		return max(1, max(1, ptr.Deref(p.Data, 1))/max(1, ptr.Deref(p.DataLocal, 1)))
	case ptr.Deref(p.Pipeline, 0) > 0:
		return *p.Pipeline
	}
	return 1
}

// llmInferenceService makes the pods of an LLMInferenceService of KServe: a Deployment, or with workers a LeaderWorkerSet, of servers, and another
// of those that prefill (pkg/controller/v1alpha2/llmisvc/workload_multi_node.go). The pods of its router are not planned: what they are is in
// configurations of the cluster's.
func (m *maker) llmInferenceService(w *Workload, u *unstructured.Unstructured) error {
	var spec llmService
	if err := decode(u.Object["spec"], &spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	const devices = "serving.kserve.io/exp-dra-device-class" // of which it makes a claim for each pod (managed_dra.go)
	if class := u.GetAnnotations()[devices]; class != "" {
		w.Unplanned = fmt.Sprintf("%s is planned without the claims of devices that its operator gives its pods by %s", facts.RefTo(u), devices)
	}
	for _, part := range []struct {
		name, path string
		of         *llmService
	}{{"serve", "/spec", &spec}, {"prefill", "/spec/prefill", spec.Prefill}} {
		if part.of != nil {
			m.llmPods(w, u, part.name, part.path, part.of)
		}
	}
	return nil
}

func (m *maker) llmPods(w *Workload, u *unstructured.Unstructured, name, path string, s *llmService) {
	template := func(spec *corev1.PodSpec) *corev1.PodTemplateSpec {
		t := &corev1.PodTemplateSpec{Spec: *spec.DeepCopy()}
		for i := range t.Spec.Containers {
			c := &t.Spec.Containers[i]
			c.Name, c.Image = cmp.Or(c.Name, "main"), cmp.Or(c.Image, "runtime")
		}
		t.Labels, t.Annotations = maps.Clone(s.Labels), maps.Clone(s.Annotations)
		if t.Labels == nil {
			t.Labels = make(map[string]string)
		}
		t.Labels["app.kubernetes.io/name"], t.Labels["app.kubernetes.io/component"] = u.GetName(), "llminferenceservice-"+name
		return t
	}
	called := u.GetName() + "-" + name
	switch {
	case s.Worker != nil && len(s.Worker.Containers) > 0:
		size := s.size()
		t := &leaderWorkerTemplate{Size: &size, Worker: *template(s.Worker)}
		if s.Template != nil && len(s.Template.Containers) > 0 {
			t.Leader = template(s.Template)
		}
		m.servers(w, u, name, called, path+"/worker", t, ptr.Deref(s.Replicas, 1))
	case s.Template != nil && len(s.Template.Containers) > 0:
		p := m.replicaSet(name, u, called, path+"/template", template(s.Template), atLeast(s.Replicas, 0))
		p.Bare = true
		w.add(p)
	}
}

// serverIn is the model server of a component: what is called model, or after a framework.
func serverIn(part map[string]any) map[string]any {
	if model, ok := part["model"].(map[string]any); ok {
		return model
	}
	for _, key := range slices.Sorted(maps.Keys(part)) {
		if server, ok := part[key].(map[string]any); ok && (server["storageUri"] != nil || server["protocolVersion"] != nil || server["type"] != nil) {
			return server
		}
	}
	return nil
}
