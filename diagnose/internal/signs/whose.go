package signs

import (
	"regexp"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
)

// place is which layer a report belongs to, and who has to act on it.
type place struct {
	layer check.Layer
	owner check.Owner
}

var (
	capacity  = place{check.L1, check.Capacity}
	nodes     = place{check.L2, check.Platform}
	queues    = place{check.L3, check.Scheduler}
	rules     = place{check.L3, check.Policy}
	volumes   = place{check.L3, check.Storage}
	platform4 = place{check.L4, check.Platform} // what a container needs before it starts, which a platform makes
	work      = place{check.L4, check.ML}
	author    = place{check.L4, check.User}
)

// byGroup says whose an API group is. A row holds for the group and for all that end in it; the longest row counts.
var byGroup = map[string]place{
	"autoscaling.x-k8s.io": capacity, // ProvisioningRequest: a queue for machines

	"karpenter.sh": nodes, "karpenter.k8s.aws": nodes, "karpenter.azure.com": nodes, "karpenter.k8s.gcp": nodes, "eks.amazonaws.com": nodes, "cluster.x-k8s.io": nodes, "machine.openshift.io": nodes,
	"machineconfiguration.openshift.io": nodes, "cloud.google.com": nodes, "cnrm.cloud.google.com": nodes, "nvidia.com": nodes, "amd.com": nodes, "intel.com": nodes, "habana.ai": nodes, "nfd.k8s-sigs.io": nodes, "nfd.openshift.io": nodes,
	"node.x-k8s.io": nodes, "medik8s.io": nodes, "nvsentinel.nvidia.com": nodes, "certificates.k8s.io": nodes, "resource.k8s.io": nodes, "kured.dev": nodes, "maintenance.nvidia.com": nodes, "mellanox.com": nodes, "sriovnetwork.openshift.io": nodes,
	"metal3.io": nodes, "gardener.cloud": nodes, "sim.berth.dev": nodes, "node.k8s.io": nodes,

	"kueue.x-k8s.io": queues, "scheduling.run.ai": queues, "run.ai": queues, "kai.scheduler": queues, "volcano.sh": queues, "scheduling.k8s.io": queues, "scheduling.x-k8s.io": queues, "koordinator.sh": queues, "yunikorn.apache.org": queues,
	"berth.dev": queues, "armadaproject.io": queues, "descheduler.alpha.kubernetes.io": queues, "keda.sh": queues,

	"kyverno.io": rules, "gatekeeper.sh": rules, "admissionregistration.k8s.io": rules, "policy.open-cluster-management.io": rules, "kubewarden.io": rules, "policies.kubewarden.io": rules, "quota.openshift.io": queues,
	"apiregistration.k8s.io": {check.L3, check.Platform}, "apiextensions.k8s.io": {check.L3, check.Platform},

	"snapshot.storage.k8s.io": volumes, "storage.k8s.io": volumes, "rook.io": volumes, "longhorn.io": volumes, "cdi.kubevirt.io": volumes, "volsync.backube": volumes, "fluid.io": volumes, "juicefs.com": volumes, "csi.k8s.io": volumes,
	"openebs.io": volumes, "topolvm.io": volumes, "velero.io": volumes, "objectbucket.io": volumes, "linstor.linbit.com": volumes, "portworx.io": volumes, "weka.io": volumes,

	"cert-manager.io": platform4, "external-secrets.io": platform4, "secrets-store.csi.x-k8s.io": platform4, "secrets.hashicorp.com": platform4, "bitnami.com": platform4, "istio.io": platform4, "cni.cncf.io": platform4, "cilium.io": platform4,
	"projectcalico.org": platform4, "k8s.ovn.org": platform4, "spire.spiffe.io": platform4, "crossplane.io": platform4, "vault.banzaicloud.com": platform4, "service.binding": platform4, "servicebinding.io": platform4,

	"jobset.x-k8s.io": author, "leaderworkerset.x-k8s.io": author, "kubeflow.org": author, "ray.io": author, "batch": work, "apps": author, "argoproj.io": author, "serving.knative.dev": author, "kserve.io": author, "flink.apache.org": author,
	"sparkoperator.k8s.io": author, "toolkit.fluxcd.io": author,
}

// byWord is for groups that are not in the table: the first row with a word in the kind, or in the group, counts.
var byWord = []struct {
	words *regexp.Regexp
	place
}{
	{regexp.MustCompile(`reservation|capacity|provisioning|purchase|procure|commitment|stock`), capacity},
	{regexp.MustCompile(`quota|queue|workload|podgroup|gang|admission|approval|approver|licen[cs]|budget|booking|allocation|tenant|fairshare|priorit|gate|permit|slot`), queues},
	{regexp.MustCompile(`policy|policies|constraint|compliance|security|guard`), rules},
	{regexp.MustCompile(`volume|storage|snapshot|dataset|bucket|cache|filesystem|backup|restore|disk`), volumes},
	{regexp.MustCompile(`node|machine|instance|driver|device|gpu|mig|accelerator|hardware|fabric|nvlink|firmware|kubelet|maintenance|health|host|rack|reboot`), nodes},
	{regexp.MustCompile(`secret|certificate|identity|credential|network|dns|mesh|registry|image|config|endpoint|vault|token`), platform4},
	{regexp.MustCompile(`job|train|serve|inference|model|notebook|experiment|run|task|pipeline|workflow|app`), author},
}

// supply is how controllers that make nodes say that there are no machines to be had, or no right to them.
var supply = regexp.MustCompile(`(?i)insufficient.?(instance)?.?capacity|insufficientfreeaddresses|stock.?out|out.?of.?(capacity|stock|resource)|resource_?pool_?exhausted|(vcpu|quota|limit).?exceeded|exceeded.?quota|quota_exceeded|allocationfailed|skunotavailable|no.?capacity|reservation.*(ended|expired|exceeded)|unfulfillable`)

// placeOf is whose a report is: by API group where that is known, else by a word in its kind or group; the zero place where
// neither says.
func placeOf(group, kind, reason, message string) place {
	at, known := place{}, false
	for suffix := group; suffix != "" && !known; _, suffix, _ = strings.Cut(suffix, ".") {
		at, known = byGroup[suffix]
	}
	if !known && (group != "" || kind != "") {
		for _, row := range byWord {
			if row.words.MatchString(strings.ToLower(kind)) {
				at = row.place
				break
			}
		}
		for i := 0; at.layer == "" && i < len(byWord); i++ {
			if byWord[i].words.MatchString(strings.ToLower(group)) {
				at = byWord[i].place
			}
		}
	}
	if (at == nodes || at == capacity) && (supply.MatchString(reason) || supply.MatchString(message)) {
		return capacity
	}
	return at
}

// Whose is the layer that a report of an object of the group and kind belongs to, and who has to act on it; "" where neither tells.
func Whose(group, kind, reason, message string) (check.Layer, check.Owner) {
	at := placeOf(group, kind, reason, message)
	return at.layer, at.owner
}

// spectators are kinds that follow work and hold nothing back: what they report is worth a look, and no cause.
var spectators = regexp.MustCompile(`^(HorizontalPodAutoscaler|VerticalPodAutoscaler|VerticalPodAutoscalerCheckpoint|PodDisruptionBudget|ServiceMonitor|PodMonitor|PrometheusRule|NetworkPolicy|Service|Endpoints|EndpointSlice|Ingress|HTTPRoute|Gateway|VirtualService|DestinationRule|PolicyReport|ClusterPolicyReport|Application|ApplicationSet|Kustomization|HelmRelease|GitRepository|ControllerRevision|ScaledObject)$`)
