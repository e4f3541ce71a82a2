package install

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/dialect/all"
	"github.com/berth-dev/berth/kube/policy"
	"github.com/berth-dev/berth/kube/scheduler"
)

// Values are what an installation may choose. Names and the namespace are not among them: the admission policies, the
// lease, the certificate and the roles name each other, and a cluster has one Berth.
type Values struct {
	Image    string
	Replicas int32
	CPU      resource.Quantity // that each replica requests
	Memory   resource.Quantity
	Family   corev1.IPFamily // of the pods' addresses
	Config   string          // of the scheduler: a SchedulerConfiguration; "": as the cluster has it, else the defaults
	// Dialects are other schedulers whose admission policies are installed too: what their own webhooks do. Their kinds are not.
	Dialects []string
}

// Defaults are the values where nothing is chosen. Requests are a guess for some hundred nodes: nobody has measured them yet.
func Defaults(version string) Values {
	return Values{Image: "berth:" + version, Replicas: 2, CPU: resource.MustParse("500m"), Memory: resource.MustParse("512Mi"), Family: corev1.IPv4Protocol}
}

// defaultConfig says nothing, so that every field has its default.
const defaultConfig = "apiVersion: berth.dev/v1alpha1\nkind: SchedulerConfiguration\n"

// configFile is the key in the ConfigMap, and configFolder where the container has it.
const (
	configFile   = "scheduler.yaml"
	configFolder = "/etc/berth"
)

const (
	// Name is of everything that is the scheduler's own.
	Name = answer.ClusterService
	// Port is where the scheduler answers.
	Port = 10259
	// user is whom the image runs as.
	user = 65532
)

// Object is one object of an installation.
type Object struct {
	Path            string // where the API server keeps it
	Kind, Namespace string
	Name            string
	Text            []byte // YAML
	Lasting         string // why it stays when Berth is removed; "": it does not
	Once            bool   // it is left as it is where it is there: people edit it
	Optional        string // what a cluster lacks that does not know its kind; "": it cannot do without
}

func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// places are where the API server keeps the kinds.
var places = map[string]string{
	"APIService":                       "/apis/apiregistration.k8s.io/v1/apiservices",
	"ClusterRole":                      "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding":               "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"ConfigMap":                        "/api/v1/namespaces/NS/configmaps",
	"CustomResourceDefinition":         "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"Deployment":                       "/apis/apps/v1/namespaces/NS/deployments",
	"EndpointSlice":                    "/apis/discovery.k8s.io/v1/namespaces/NS/endpointslices",
	"MutatingAdmissionPolicy":          "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
	"MutatingAdmissionPolicyBinding":   "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
	"NetworkPolicy":                    "/apis/networking.k8s.io/v1/namespaces/NS/networkpolicies",
	"PodDisruptionBudget":              "/apis/policy/v1/namespaces/NS/poddisruptionbudgets",
	"Role":                             "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/roles",
	"RoleBinding":                      "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/rolebindings",
	"Secret":                           "/api/v1/namespaces/NS/secrets",
	"Service":                          "/api/v1/namespaces/NS/services",
	"ServiceAccount":                   "/api/v1/namespaces/NS/serviceaccounts",
	"ValidatingAdmissionPolicy":        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}

// noMutation is what is missing where the API server knows no MutatingAdmissionPolicy: its v1 is served since Kubernetes 1.36.
const noMutation = "this Kubernetes serves no admissionregistration.k8s.io/v1 MutatingAdmissionPolicy (1.36 does): pods name schedulerName: berth themselves, and berth.dev/user is the author's word"

// Objects are all objects of an installation in the order in which they are applied: what others need comes first, the
// Deployment and what points at it last.
func Objects(v Values) ([]Object, error) {
	var out []Object
	var texts [][]byte
	for _, definition := range [][]byte{v1alpha1.QueueCRD, v1alpha1.ReservationCRD} {
		kind, err := lasting(definition)
		if err != nil {
			return nil, err
		}
		texts = append(texts, kind)
	}
	for _, o := range identity() {
		text, err := write(o)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	policies, err := policy.Manifests()
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		texts = append(texts, p.Text)
	}
	for _, name := range v.Dialects {
		more, err := policiesOf(name)
		if err != nil {
			return nil, err
		}
		texts = append(texts, more...)
	}
	for _, o := range workload(v) {
		text, err := write(o)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		o, err := read(text)
		if err != nil {
			return nil, err
		}
		o.Once = o.Kind == "ConfigMap" && v.Config == ""
		out = append(out, o)
	}
	return out, nil
}

// policiesOf are the admission policies of a dialect, and their bindings.
func policiesOf(name string) (out [][]byte, err error) {
	d := all.Find(name)
	if d == nil {
		return nil, fmt.Errorf("install: there is no dialect %q: choose %s", name, strings.Join(all.Names(), ", "))
	}
	for _, text := range d.Install().Objects {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			return nil, fmt.Errorf("install: dialect %s: %w", name, err)
		}
		if strings.Contains(o.GetKind(), "AdmissionPolicy") {
			text, err := write(o.Object)
			if err != nil {
				return nil, err
			}
			out = append(out, text)
		}
	}
	return out, nil
}

// write is the object as YAML, without what the API server alone fills in.
func write(object any) ([]byte, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	return yaml.Marshal(withoutNull(fields))
}

// keepIt has Helm, too, leave an object where it is when the rest is removed.
var keepIt = map[string]string{"helm.sh/resource-policy": "keep"}

// lasting is the object with keepIt on it.
func lasting(text []byte) ([]byte, error) {
	var o unstructured.Unstructured
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, keepIt)
	o.SetAnnotations(annotations)
	return write(o.Object)
}

// withoutNull leaves out fields that Go writes and that say nothing: nulls, and creation times.
func withoutNull(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, field := range v {
			if field == nil || key == "creationTimestamp" {
				delete(v, key)
				continue
			}
			v[key] = withoutNull(field)
		}
	case []any:
		for i := range v {
			v[i] = withoutNull(v[i])
		}
	}
	return v
}

func read(text []byte) (Object, error) {
	var head struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return Object{}, fmt.Errorf("install: %w", err)
	}
	o := Object{Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name, Text: text}
	place, ok := places[o.Kind]
	if !ok || o.Name == "" || strings.Contains(place, "/NS/") != (o.Namespace != "") {
		return Object{}, fmt.Errorf("install: %s: nobody knows where it is kept", o)
	}
	o.Path = strings.Replace(place, "/NS/", "/"+o.Namespace+"/", 1) + "/" + o.Name
	switch {
	case o.Kind == "CustomResourceDefinition":
		o.Lasting = "its objects, which people wrote"
	case o.Kind == "Secret":
		o.Lasting = "evictions under way are known again by it"
	case strings.HasPrefix(o.Kind, "MutatingAdmissionPolicy"):
		o.Optional = noMutation
	}
	return o, nil
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": manager, "app.kubernetes.io/name": Name}}
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// identity is who the scheduler is, what it may do, and what others may ask of it.
func identity() []any {
	const ns = scheduler.Namespace
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: Name}}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: Name}
	}
	marks := meta(ns, scheduler.MarksSecret)
	marks.Annotations = keepIt
	out := []any{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta(ns, Name)},
		&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: marks}, // the scheduler fills it
		&rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: meta("", Name), Rules: scheduler.ClusterRules()},
		&rbacv1.ClusterRoleBinding{TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: meta("", Name), Subjects: subjects, RoleRef: ref("ClusterRole")},
		&rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: meta(ns, Name), Rules: scheduler.NamespaceRules()},
		&rbacv1.RoleBinding{TypeMeta: rbacType("RoleBinding"), ObjectMeta: meta(ns, Name), Subjects: subjects, RoleRef: ref("Role")},
		&rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: meta("", "berth-metrics"), Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}},
		&rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: meta("", "berth-queues-edit"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{v1alpha1.QueuePlural}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"workloads"}, Verbs: []string{"hold"}}, // and release: policy berth-hold
		}},
		&rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: meta("", PageRole), Rules: pageRules()},
	}
	roles, binding := scheduler.CommonRoles()
	for _, r := range roles {
		r.TypeMeta = rbacType("ClusterRole")
		out = append(out, r)
	}
	binding.TypeMeta = rbacType("ClusterRoleBinding")
	return append(out, binding)
}

// PageRole is of what the commands read, for a page that is to explain as much as they do. Nobody has it until an administrator gives it
// to the scheduler: the page then reads those kinds for viewers who may read them too, and for no others.
const PageRole = "berth-page"

// PageGrant is the command that gives it to the scheduler. The page shows it to viewers while it lacks the role.
const PageGrant = "kubectl create clusterrolebinding " + PageRole + " --clusterrole=" + PageRole + " --serviceaccount=" + scheduler.Namespace + ":" + Name

// pageRules are to follow every kind that a diagnosis is made of.
func pageRules() (out []rbacv1.PolicyRule) {
	for _, k := range facts.Kinds {
		i := slices.IndexFunc(out, func(r rbacv1.PolicyRule) bool { return r.APIGroups[0] == k.Group })
		if i < 0 {
			i = len(out)
			out = append(out, rbacv1.PolicyRule{APIGroups: []string{k.Group}, Verbs: []string{"list", "watch"}})
		}
		out[i].Resources = append(out[i].Resources, k.Resource)
	}
	return out
}

// workload is the scheduler itself, and how it is reached.
func workload(v Values) []any {
	const ns = scheduler.Namespace
	labels := map[string]string{"app.kubernetes.io/name": Name}
	port, protocol := intstr.FromInt32(Port), corev1.ProtocolTCP
	slice := meta(ns, Name)
	slice.Labels[discoveryv1.LabelServiceName], slice.Labels[discoveryv1.LabelManagedBy] = Name, "berth.dev"
	return []any{
		&corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta(ns, Name),
			Data: map[string]string{configFile: cmp.Or(v.Config, defaultConfig)},
		},
		&networkingv1.NetworkPolicy{
			TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}, ObjectMeta: meta(ns, Name),
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: labels}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
				// The API server and kubelets come from addresses of nodes, which no selector knows; who they are is asked of each.
				Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port, Protocol: &protocol}}}},
			},
		},
		&policyv1.PodDisruptionBudget{
			TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: meta(ns, Name),
			Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}},
		},
		deployment(v, labels),
		&corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta(ns, Name),
			Spec: corev1.ServiceSpec{
				IPFamilies: []corev1.IPFamily{v.Family},
				Ports:      []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: port, Protocol: protocol}}, // no selector: ADR 84
			},
		},
		// Without endpoints: the leader writes them, and they are not applied over.
		map[string]any{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": slice, "addressType": v.Family},
		map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": meta("", answer.APIServiceName),
			"spec": map[string]any{ // the leader writes its certificate into it
				"group": answer.Group, "version": answer.Version, "groupPriorityMinimum": 100, "versionPriority": 10,
				"service": map[string]any{"namespace": ns, "name": Name, "port": 443},
			},
		},
	}
}

func deployment(v Values, labels map[string]string) *appsv1.Deployment {
	probe := func(path string, every int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("https"), Scheme: corev1.URISchemeHTTPS}},
			PeriodSeconds: every, TimeoutSeconds: 5,
		}
	}
	pod := corev1.PodSpec{
		ServiceAccountName: Name, PriorityClassName: "system-cluster-critical",
		// Never by itself: who schedules the scheduler's pods when none runs?
		SchedulerName: corev1.DefaultSchedulerName,
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}}},
		}}},
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(user)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Volumes:         []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: Name}}}}},
		Containers: []corev1.Container{{
			Name: "scheduler", Image: v.Image,
			Args:  []string{"scheduler", fmt.Sprintf("--listen=:%d", Port), "--config=" + configFolder + "/" + configFile},
			Env:   []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}}},
			Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: Port, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: v.CPU, corev1.ResourceMemory: v.Memory},
			},
			VolumeMounts:  []corev1.VolumeMount{{Name: "config", MountPath: configFolder, ReadOnly: true}},
			LivenessProbe: probe("/livez", 10), ReadinessProbe: probe("/readyz", 5),
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta(scheduler.Namespace, Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &v.Replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			// A warm standby is there before an old process ends.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}

// Manifests are the objects as two files for kubectl: those that every supported Kubernetes takes, and those that are Optional.
// kubectl and Helm fail on a file with a kind that the cluster does not serve.
func Manifests(list []Object) (all, optional []byte) {
	a := bytes.NewBufferString("# Made by `berth install --manifests`. Apply it with: kubectl apply --server-side -f FILE\n")
	o := bytes.NewBufferString("# Made by `berth install --manifests`, for Kubernetes 1.36 and later. Before 1.36 leave out what follows in this file.\n")
	for _, object := range list {
		to := a
		if object.Optional != "" {
			to = o
		}
		fmt.Fprintf(to, "---\n%s\n", bytes.TrimPrefix(bytes.TrimSpace(object.Text), []byte("---\n")))
	}
	return a.Bytes(), o.Bytes()
}
