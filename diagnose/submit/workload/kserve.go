package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// spread is an InferenceService's model over several nodes: the first pod of each replica is the head, and workers are beside it.
type spread struct {
	worker corev1.PodSpec
	nodes  int // with the head
}

// acceleratorNames are the resources that KServe takes for GPUs (constants.DefaultGPUResourceTypeList), the one that it adds by itself first.
var acceleratorNames = []corev1.ResourceName{"nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu", "habana.ai/gaudi"}

// spreadOver reads the workerSpec of a component, and has the head and the workers ask for the GPUs that KServe gives them; nil: all of the
// model is in one pod (kserve/kserve, commit aaac4e29, pkg/controller/v1beta1/inferenceservice/components/predictor.go, computeRayNodeAndGPUs,
// and reconcilers/deployment, addGPUResourceToDeployment). The runtime may say both sizes too, and is not in the manifest: a model with
// neither is taken to be on two nodes, as somebody wrote workerSpec to spread it.
func spreadOver(part map[string]any, head *corev1.PodSpec) (*spread, error) {
	said, ok := part["workerSpec"].(map[string]any)
	if !ok {
		return nil, nil
	}
	out := &spread{}
	if err := decode(said, &out.worker); err != nil {
		return nil, fmt.Errorf("workerSpec: %w", err)
	}
	if len(out.worker.Containers) == 0 {
		out.worker.Containers = []corev1.Container{{Name: "worker-container", Image: "runtime"}}
	}
	pipeline, hasPipeline := number(said["pipelineParallelSize"])
	tensor, hasTensor := number(said["tensorParallelSize"])
	if !hasTensor {
		tensor = 1
	}
	if pipeline = max(1, pipeline); !hasPipeline && !hasTensor {
		pipeline = 2
	}
	total := times(max(1, tensor), pipeline)
	name, atHead := acceleratorsOf(head)
	workers, atWorker := acceleratorsOf(&out.worker)
	if atHead == 0 {
		name = workers
	}
	if out.nodes, atHead, atWorker = rayNodes(total, atHead, atWorker); total > atHead+times(out.nodes-1, atWorker) {
		return nil, fmt.Errorf("workerSpec: tensorParallelSize x pipelineParallelSize is %d GPUs, and its %d nodes ask for %d and %d times %d", total, out.nodes, atHead, out.nodes-1, atWorker)
	}
	giveAccelerators(head, name, atHead)
	giveAccelerators(&out.worker, name, atWorker)
	return out, nil
}

// rayNodes is on how many nodes so many GPUs are, and how many of them the head has and each worker. What the head or the workers say of
// themselves, above 0, decides.
func rayNodes(total, head, worker int) (nodes, atHead, atWorker int) {
	switch {
	case worker > 0:
		nodes = (total + worker - 1) / worker
		if nodes == 1 || head >= total {
			return 1, total, 0
		}
		if head == 0 {
			head = total - worker*(nodes-1)
		}
		return nodes, head, worker
	case head > 0:
		return 1 + max(0, total-head), head, 1
	}
	return total, 1, 1
}

// acceleratorsOf is what the first container asks for of GPUs, and as what.
func acceleratorsOf(p *corev1.PodSpec) (corev1.ResourceName, int) {
	r := &p.Containers[0].Resources
	for _, name := range acceleratorNames {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			if q, ok := list[name]; ok && q.Sign() > 0 {
				return name, int(min(q.Value(), maxAccelerators))
			}
		}
	}
	return acceleratorNames[0], 0
}

// maxAccelerators is more than any node has.
const maxAccelerators = 1 << 16

func giveAccelerators(p *corev1.PodSpec, name corev1.ResourceName, n int) {
	r := &p.Containers[0].Resources
	for _, list := range []*corev1.ResourceList{&r.Requests, &r.Limits} {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	}
}
