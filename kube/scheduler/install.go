package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/all"
	"github.com/berth-dev/berth/kube/dialect/controllers"
	"github.com/berth-dev/berth/kube/policy"
)

// Install gives the cluster the kind BerthQueue, a default queue and Berth's admission policies, and User the rights that Run needs, and no more.
// Queues of the kind that an older Berth had become BerthQueues. It needs administrator rights.
func Install(ctx context.Context, admin *rest.Config, log *slog.Logger) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("scheduler: install: %w", err)
	}
	rbac := client.RbacV1()
	role := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: User}
	}
	err = errors.Join(
		installQueues(ctx, client.Discovery().RESTClient(), log),
		apply(ctx, rbac.ClusterRoles(), &rbacv1.ClusterRole{ObjectMeta: named("", User), Rules: append(ClusterRules(), fleetRule)}),
		apply(ctx, rbac.ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{ObjectMeta: named("", User), Subjects: subjects, RoleRef: role("ClusterRole")}),
		apply(ctx, rbac.Roles(leaseNamespace), &rbacv1.Role{ObjectMeta: named(leaseNamespace, User), Rules: leaseRules}),
		apply(ctx, rbac.RoleBindings(leaseNamespace), &rbacv1.RoleBinding{ObjectMeta: named(leaseNamespace, User), Subjects: subjects, RoleRef: role("Role")}),
		apply(ctx, rbac.ClusterRoles(), viewer()),
		makeMarks(ctx, client),
		apply(ctx, rbac.ClusterRoles(), stamper()),
		apply(ctx, rbac.ClusterRoleBindings(), stamperBinding()),
		policy.Install(ctx, client.Discovery().RESTClient()),
	)
	if err != nil {
		return fmt.Errorf("scheduler: install: %w", err)
	}
	return nil
}

// InForce returns once the API server enforces the policies that Install applied, or ctx ends. It needs administrator rights.
func InForce(ctx context.Context, admin *rest.Config) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	return policy.InForce(ctx, client.Discovery().RESTClient())
}

// store is where objects of one kind are kept.
type store[T metav1.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
}

// apply makes the object what it should be, whether or not it is there.
func apply[T metav1.Object](ctx context.Context, s store[T], object T) error {
	_, err := s.Create(ctx, object, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := s.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	object.SetResourceVersion(old.GetResourceVersion())
	_, err = s.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "berth"}}
}

var subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: User}}

var clusterRules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"namespaces", "nodes", "pods", "services", "persistentvolumeclaims", "persistentvolumes"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses", "csinodes", "csidrivers", "csistoragecapacities"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"deviceclasses", "devicetaintrules", "resourceslices", "resourceclaims", "resourceclaimtemplates"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims"}, Verbs: []string{"get"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceclaims/status"}, Verbs: []string{"update"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/binding"}, Verbs: []string{"update", "patch"}}, // what the API server asks for when the status says a device
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims"}, Verbs: []string{"create", "delete"}},        // those that stand for extended resources
	{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"podgroups", "compositepodgroups"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims", "persistentvolumes"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"list", "watch", "patch"}}, // those that a dialect lets in
	{APIGroups: []string{"apps"}, Resources: []string{"statefulsets", "deployments", "replicasets"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"patch"}}, // the queues that they may use
	{APIGroups: []string{""}, Resources: []string{"pods/binding"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}}, // HAMi's lock
	{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete", "patch"}},
	{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
	{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"podgroups/status", "compositepodgroups/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{v1alpha1.QueuePlural}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{v1alpha1.QueuePlural + "/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}},
	{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
	{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}, ResourceNames: []string{policy.Terms}, Verbs: []string{"get"}},
	{APIGroups: []string{"apiregistration.k8s.io"}, Resources: []string{"apiservices"}, ResourceNames: []string{answer.APIServiceName}, Verbs: []string{"get", "update"}},
}

// fleetRule is for GPUMetrics.Fleet: the pages of exporters that the fleet of an embedded cluster serves.
var fleetRule = rbacv1.PolicyRule{APIGroups: []string{"metrics.k8s.io"}, Resources: []string{"nodes/metrics"}, Verbs: []string{"get"}}

// dialectRules are for the kinds of dialects, whether or not they are served: to read them, to write their statuses, and to make the
// groups that the project itself makes.
func dialectRules() []rbacv1.PolicyRule {
	out := append(ownerRules(), rbacv1.PolicyRule{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"priorityclasses"}, Verbs: []string{"list", "watch"}})
	for _, d := range all.Dialects() {
		if a, ok := d.(dialect.Admitter); ok { // whether its own controller runs
			out = append(out, rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{a.Rival().Name}, Verbs: []string{"get"}})
		}
		for _, k := range d.Kinds() {
			verbs := []string{"list", "watch"}
			if k.Grouping {
				verbs = append(verbs, "create")
			}
			if _, ok := d.(dialect.Deactivator); ok && k.Grouping {
				verbs = append(verbs, "patch")
			}
			out = append(out,
				rbacv1.PolicyRule{APIGroups: []string{k.Group}, Resources: []string{k.Plural}, Verbs: verbs},
				rbacv1.PolicyRule{APIGroups: []string{k.Group}, Resources: []string{k.Plural + "/status"}, Verbs: []string{"patch"}})
		}
	}
	for _, k := range controllers.New().Kinds() { // how many pods they make
		if !slices.ContainsFunc(out, func(r rbacv1.PolicyRule) bool {
			return r.APIGroups[0] == k.Group && slices.Contains(r.Resources, k.Plural)
		}) {
			out = append(out, rbacv1.PolicyRule{APIGroups: []string{k.Group}, Resources: []string{k.Plural}, Verbs: []string{"list", "watch"}})
		}
	}
	return out
}

// ownerRules are for the kinds whose metadata is read, whether or not they are served: one for each group.
func ownerRules() (out []rbacv1.PolicyRule) {
	for _, k := range convert.OwnerKinds() {
		switch last := len(out) - 1; {
		case k.Typed:
		case last >= 0 && out[last].APIGroups[0] == k.Group:
			out[last].Resources = append(out[last].Resources, k.Plural)
		default:
			out = append(out, rbacv1.PolicyRule{APIGroups: []string{k.Group}, Resources: []string{k.Plural}, Verbs: []string{"list", "watch"}})
		}
	}
	return out
}

var leaseRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{cluster.DefaultName + "-scheduler"}, Verbs: []string{"get", "update"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{marksName}, Verbs: []string{"get", "update"}}, // an empty one is filled
	{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, ResourceNames: []string{answer.ClusterService}, Verbs: []string{"get", "update"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{answer.TrustName}, Verbs: []string{"get"}},
}

// viewer lets users that may view a namespace, or all, ask about the workloads there.
func viewer() *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{
		ObjectMeta: named("", "berth-answers-view"),
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{answer.Group}, Resources: []string{"workloads", "queues", "configurations"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{answer.Group}, Resources: []string{answer.PageResource}, Verbs: []string{"get"}},
		},
	}
	role.Labels["rbac.authorization.k8s.io/aggregate-to-view"] = "true"
	return role
}

// stamperName is the role of those whose word counts for whose work an object is: see kube/policy/manifests/user.yaml.
const stamperName = "berth-stamp-users"

func stamper() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: named("", stamperName),
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"users"}, Verbs: []string{"stamp"}}},
	}
}

// workloadControllers are the identities of Kubernetes' own controllers that make pods, or what makes pods, of templates:
// each by itself, or all of them as the controller manager.
func workloadControllers() []rbacv1.Subject {
	out := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:kube-controller-manager"}}
	for _, name := range []string{
		"cronjob-controller", "daemon-set-controller", "deployment-controller", "job-controller", "replicaset-controller", "replication-controller", "statefulset-controller",
	} {
		out = append(out, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name})
	}
	return out
}
