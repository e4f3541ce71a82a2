package inspect

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
)

// What leaves in a bundle is what is known to be needed. This file is what is known.

// gone are fields that hold programs, certificates, copies or settings of a process, and that nobody diagnoses by.
var gone = map[string]bool{
	"managedFields": true, "caBundle": true, "userData": true, "customData": true, "runtimeEnvYAML": true, "runtimeEnv": true, "stringData": true, "binaryData": true, "selfLink": true,
	"lifecycle": true, "hostAliases": true, "dnsConfig": true, "httpHeaders": true, "sysctls": true, "seLinuxOptions": true, "workingDir": true, "terminationMessagePath": true, "volumeAttributes": true, "mountOptions": true,
	"wandb": true, "secrets": true, "caCert": true, "kubeconfig": true, "opaque": true, "parametersJSON": true, "script": true, "envFile": true,
}

// envFields are lists or maps of environment variables, as Kubernetes and others call them.
var envFields = regexp.MustCompile(`(?i)^(extra|additional|custom|pod|container|worker|head|runtime|job)?_?env(ironment)?(_?(vars?|variables?|s))?$`)

// commandFields are command lines.
var commandFields = regexp.MustCompile(`(?i)^((exec|start|run|pre|post|init)_?)?(commands?|args|arguments|entrypoint|cmd|cmdline|scripts?|startparams|raystartparams|launcher(command|args)?|extraargs|options|flags|exec)$`)

// env are the variables whose values diagnosis reads or a reader needs, and what their values may be. All others leave
// without a value.
var env = []struct {
	name  string // or how it begins, with a * at its end
	value *regexp.Regexp
}{
	{"WORLD_SIZE", smallNumber}, {"RANK", smallNumber}, {"LOCAL_RANK", smallNumber}, {"NODE_RANK", smallNumber}, {"GROUP_RANK", smallNumber}, {"LOCAL_WORLD_SIZE", smallNumber},
	{"NNODES", smallNumber}, {"NPROC_PER_NODE", smallNumber}, {"NUM_GPUS", smallNumber}, {"PET_NNODES", smallNumber}, {"PET_NPROC_PER_NODE", smallNumber}, {"PET_NODE_RANK", smallNumber}, {"PET_MASTER_PORT", smallNumber},
	{"MASTER_PORT", smallNumber}, {"MASTER_ADDR", hostName}, {"PET_MASTER_ADDR", hostName}, {"OMP_NUM_THREADS", smallNumber},
	{"SCHEDULER_NAME", hostName}, {"NVIDIA_VISIBLE_DEVICES", gpuList}, {"CUDA_VISIBLE_DEVICES", gpuList}, {"HIP_VISIBLE_DEVICES", gpuList}, {"ROCR_VISIBLE_DEVICES", gpuList}, {"NVIDIA_DRIVER_CAPABILITIES", wordList}, {"NVIDIA_DISABLE_REQUIRE", smallNumber}, {"NVIDIA_REQUIRE_CUDA", cudaNeeds}, {"CUDA_VERSION", version}, {"NVIDIA_MIG_CONFIG_DEVICES", gpuList},
	{"NCCL_DEBUG", wordList}, {"NCCL_DEBUG_SUBSYS", wordList}, {"NCCL_ALGO", wordList}, {"NCCL_PROTO", wordList}, {"NCCL_VERSION", version},
	{"NCCL_*", smallNumber}, {"TORCH_NCCL_*", smallNumber}, {"CUDA_*", smallNumber},
}

var (
	smallNumber = regexp.MustCompile(`^(?:-?\d{1,6}|[Tt]rue|[Ff]alse|TRUE|FALSE|)$`)
	hostName    = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]{0,200}[a-z0-9])?$`)
	gpuList     = regexp.MustCompile(`^(?:all|none|void|NoDevFiles|-1|(?:\d{1,3}(?::\d{1,3})?(?:,|$))*)$`)
	wordList    = regexp.MustCompile(`^(?:(?:all|none|compute|utility|graphics|video|display|compat32|ngx|INFO|WARN|TRACE|VERSION|INIT|COLL|NET|GRAPH|TUNING|ENV|ALLOC|ALL|P2P|SHM|Ring|Tree|CollNet|NVLS|LL|LL128|Simple)(?:,|$))*$`)
	cudaNeeds   = regexp.MustCompile(`^(?:(?:cuda|brand|driver|arch)[<>=!]{1,2}[a-z0-9.]{1,12}[ ,]?)*$`)
	version     = regexp.MustCompile(`^v?\d{1,4}(?:\.\d{1,4}){0,3}(?:-\d{1,3})?$`)
)

// keptEnv says whether the variable leaves with its value.
func keptEnv(name, value string) bool {
	for _, e := range env {
		start, any := strings.CutSuffix(e.name, "*")
		if name == e.name || any && strings.HasPrefix(name, start) {
			return e.value.MatchString(value)
		}
	}
	return false
}

// launchers are the flags that say how many processes there are. A word of a command line with one of them is kept as
// far as it is harmless, for the fix is an edit of it; of other words only those in programs and numbers are.
var launchers = regexp.MustCompile(`--(?:nproc[_-]per[_-]node|nproc|num[_-]gpus|nnodes|num[_-]nodes|num[_-]machines|node[_-]rank|master[_-]port)\b`)

// programs are words of command lines that say what runs.
var programs = func() map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(`sh bash ash zsh -c -lc -ec -ex -m exec python python3 torchrun mpirun mpiexec horovodrun accelerate launch deepspeed ray start job submit jupyter lab notebook sleep infinity inf true false
		nvidia-smi dcgmi dcgm-exporter nvidia-device-plugin gpu-feature-discovery mps-control-daemon config-manager nvidia-mig-manager nvidia-validator vgpu-device-manager nvidia-driver init vllm serve sglang tritonserver train.py main.py run.py
		--nproc_per_node --nproc-per-node --nproc --num_gpus --nnodes --num_nodes --num-nodes --num_machines --node_rank --rdzv_backend --rdzv-backend c10d static && || ; |`) {
		m[w] = true
	}
	return m
}()

// annotations whose values checks, conversions or readers use. Each is judged as text; all others leave without a trace.
var (
	annotationPrefixes = []string{v1alpha1.KeyPrefix, "sim.berth.dev/", "kueue.x-k8s.io/", "kai.scheduler/", "scheduling.k8s.io/", "scheduling.volcano.sh/", "volcano.sh/", "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/", "hami.io/", "nvidia.com/", "karpenter.sh/", "cluster-autoscaler.kubernetes.io/", "autoscaling.x-k8s.io/", "batch.kubernetes.io/", "run.ai/", "runai/",
		"gang.scheduling.koordinator.sh/", "quota.scheduling.koordinator.sh/", "pod-group.scheduling.sigs.k8s.io/", "scheduling.x-k8s.io/", "yunikorn.apache.org/"}
	annotationKeys = map[string]bool{
		"deployment.kubernetes.io/revision": true, "deployment.kubernetes.io/desired-replicas": true, "pv.kubernetes.io/bind-completed": true, "pv.kubernetes.io/bound-by-controller": true, "pv.kubernetes.io/provisioned-by": true, "volume.kubernetes.io/selected-node": true, "volume.kubernetes.io/storage-provisioner": true, "volume.beta.kubernetes.io/storage-provisioner": true,
		"volume.beta.kubernetes.io/storage-class": true, "resource.kubernetes.io/pod-claim-name": true, "resource.kubernetes.io/extended-resource-claim": true, "storageclass.kubernetes.io/is-default-class": true, "kubernetes.io/config.mirror": false, "kubernetes.io/config.source": true, "kubernetes.io/limit-ranger": true,
		"node.alpha.kubernetes.io/ttl": true, "kwok.x-k8s.io/node": true, "vpaUpdates": true, "gpu-fraction": true, "gpu-memory": true, "gpu-num-devices": true, "pod-group-name": true, "volumes.kubernetes.io/controller-managed-attach-detach": true,
		"kured.dev/kured-reboot-in-progress": true, "weave.works/kured-reboot-in-progress": true, "machineconfiguration.openshift.io/state": true, "machineconfiguration.openshift.io/desiredDrain": true,
	}
	// annotationsAsText hold sentences or JSON, which is read value by value.
	quarantine = []string{"quarantineHealthEvent", "quarantineHealthEventAppliedTaints", "quarantineHealthEventIsCordoned", "quarantinedNodeUncordonedManually"}
)

// copied are annotations that hold copies of whole objects, which would bring back what was taken out.
var copied = regexp.MustCompile(`last-applied|last-handled|/applied$|last-refresh|original`)

// amountKeys are annotations that hold an amount of a GPU, in MiB or parts.
var (
	amountKeys = map[string]bool{v1alpha1.KeyGPUMemory: true, v1alpha1.KeyGPUFraction: true, "gpu-memory": true, "gpu-fraction": true, "gpu-num-devices": true}
	amount     = regexp.MustCompile(`^[0-9]{1,7}(?:\.[0-9]{1,4})?$`)
)

func keptAnnotation(key string) bool {
	if copied.MatchString(key) {
		return false
	}
	if annotationKeys[key] || slices.Contains(quarantine, key) {
		return true
	}
	return slices.ContainsFunc(annotationPrefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// identities are fields of Kubernetes' and schedulers' objects that hold names, kinds or one of a few words. What they
// hold leaves as it is if it can be a name.
var identities = func() map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(`name namespace uid kind apiVersion apiGroup group version resource resourceVersion generateName nodeName schedulerName serviceAccountName serviceAccount priorityClassName runtimeClassName
		storageClassName volumeName claimName secretName configMapName deviceClassName podGroupName workloadName resourceClaimName resourceClaimTemplateName clusterQueue queueName localQueue queue parentQueue cohort cohortName
		topologyName flavor flavors conditionType topologyKey key operator effect type status reason phase fieldPath driver pool resourceName restartPolicy policy whenUnsatisfiable nodeClassRef controllerName provisioner volumeBindingMode
		persistentVolumeReclaimPolicy accessModes attacher component instance reportingController reportingComponent action image imageID containerID architecture operatingSystem kubeletVersion kernelVersion osImage containerRuntimeVersion kubeProxyVersion
		creationTimestamp deletionTimestamp lastTransitionTime lastHeartbeatTime lastProbeTime firstTimestamp lastTimestamp eventTime startTime startedAt finishedAt completionTime acquireTime renewTime holderIdentity reportingInstance
		preemptionPolicy preemptionMode mode protocol verbs resources resourceGroups coveredResources hostname subdomain nominatedNodeName providerID podIP hostIP ip address schedule timeZone concurrencyPolicy podManagementPolicy
		instanceType zone availabilityZone subnet subnets id ids scope operations failurePolicy matchPolicy sideEffects matchLabelKeys mismatchLabelKeys manager level levels nodeLabel class request requests device productName vendor
		priorityLevel queueingStrategy stopPolicy preemptibility containerName port imagePullPolicy dnsPolicy terminationMessagePolicy userID systemUUID machineID bootID workload gang model product verdict cause state owner`) {
		m[w] = true
	}
	return m
}()

// nameFields are those of them that hold names and identifiers of objects, which are as random as keys are.
var nameFields = func() map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(`name namespace uid generateName nodeName claimName volumeName resourceVersion image imageID containerID holderIdentity podGroupName workloadName resourceClaimName resourceClaimTemplateName
		secretName configMapName serviceAccountName serviceAccount nominatedNodeName hostname providerID podIP hostIP ip address systemUUID machineID bootID pool device driver key topologyKey resourceName conditionType type nodeClassRef id`) {
		m[w] = true
	}
	return m
}()

// enumerated are the fields of Kubernetes' objects that hold one of a few words, by their Go types.
var enumerated = func() map[string]bool {
	out := make(map[string]bool)
	seen := make(map[reflect.Type]bool)
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			of := f.Type
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			if of.Kind() == reflect.String && of.Name() != "string" && name != "" && name != "uid" {
				out[name] = true
			}
			walk(f.Type)
		}
	}
	for _, k := range facts.Kinds {
		if !k.Foreign {
			walk(reflect.TypeOf(k.New()))
		}
	}
	return out
}()

// enumeration is what such fields hold.
var enumeration = regexp.MustCompile(`^[A-Z][A-Za-z]{1,39}$`)

// amounts are maps of quantities.
var amounts = map[string]bool{"requests": true, "limits": true, "capacity": true, "allocatable": true, "hard": true, "used": true, "allocated": true, "usage": true, "nominalQuota": true, "quota": true, "min": true, "max": true, "total": true, "minResources": true, "capability": true, "guarantee": true, "deserved": true, "overhead": true, "resources": true}

// labelFields are maps of label values.
var labelFields = map[string]bool{"labels": true, "matchLabels": true, "nodeSelector": true, "nodeLabels": true, "selector": true, "tags": true, "selectors": true}

// plainFields are named like secrets and hold none: the key of a taint or a label, the name of a Secret, a switch.
var plainFields = map[string]bool{
	"key": true, "keys": true, "topologyKey": true, "topologyKeys": true, "capacityKey": true, "labelKey": true, "matchLabelKeys": true, "mismatchLabelKeys": true, "secret": true, "secretKeyRef": true, "secretRef": true, "imagePullSecrets": true, "serviceAccountToken": true, "automountServiceAccountToken": true,
	"controllerExpandSecretRef": true, "controllerPublishSecretRef": true, "nodePublishSecretRef": true, "nodeStageSecretRef": true, "nodeExpandSecretRef": true, "tokenRequests": true, "tokens": true, "session": true, "sessionAffinity": true, "license": true,
}
