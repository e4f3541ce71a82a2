package scheduler

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// ClusterRules are the rights that Run needs in all of a cluster, and NamespaceRules those in its own namespace. They
// are the same for the scheduler of an embedded cluster and for one that is installed.
func ClusterRules() []rbacv1.PolicyRule { return append(slices.Clone(clusterRules), dialectRules()...) }

// NamespaceRules is as ClusterRules says.
func NamespaceRules() []rbacv1.PolicyRule { return slices.Clone(leaseRules) }

// Namespace is where the scheduler's own objects are: its lease, its secret, its Service.
const Namespace = leaseNamespace

// MarksSecret is of the secret that the scheduler fills where it is empty.
const MarksSecret = marksName

// CommonRoles are the roles that do not depend on who the scheduler is: those who may see pods may ask why they wait, and
// Kubernetes' own controllers may say whose work an object is.
func CommonRoles() ([]*rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding) {
	return []*rbacv1.ClusterRole{viewer(), stamper()}, stamperBinding()
}

func stamperBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: named("", stamperName+"-controllers"), Subjects: workloadControllers(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: stamperName},
	}
}
