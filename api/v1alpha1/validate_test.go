package v1alpha1_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestValidate gives the same pools to Validate and to the API server's reading of the CRD.
// The server may let pass what it cannot express (ours), never the other way round.
func TestValidate(t *testing.T) {
	server := serverValidation(t, v1alpha1.CRD)
	for _, tc := range []struct {
		name string
		edit func(*v1alpha1.Pool)
		want string // the field that is wrong; empty: none
		ours bool   // only Validate knows
	}{
		{name: "good", edit: func(p *v1alpha1.Pool) {}},
		{name: "name", want: "metadata.name", edit: func(p *v1alpha1.Pool) { p.Name = "Big_Pool" }},
		{name: "long name", want: "metadata.name", edit: func(p *v1alpha1.Pool) {
			p.Name = "a123456789-123456789-123456789-123456789-123456789x"
		}},
		{name: "no nodes", want: "spec.nodes", edit: func(p *v1alpha1.Pool) { p.Spec.Nodes = nil }},
		{name: "empty pool", edit: func(p *v1alpha1.Pool) { p.Spec.Nodes = new(int32(0)) }},
		{name: "negative nodes", want: "spec.nodes", edit: func(p *v1alpha1.Pool) { p.Spec.Nodes = new(int32(-1)) }},
		{name: "too many nodes", want: "spec.nodes", edit: func(p *v1alpha1.Pool) { p.Spec.Nodes = new(int32(100_001)) }},
		{name: "two counts", want: "spec.nodes", edit: func(p *v1alpha1.Pool) { p.Spec.NodeNames = []string{"a"} }},
		{name: "named", edit: func(p *v1alpha1.Pool) { p.Spec.NodeNames = []string{"a", "b.c"} }},
		{name: "bad node name", want: "spec.nodeNames[1]", edit: func(p *v1alpha1.Pool) { p.Spec.NodeNames = []string{"a", "B"} }},
		{name: "role", want: "spec.role", edit: func(p *v1alpha1.Pool) { p.Spec.Role = "master" }},
		{name: "no count", want: "spec.gpus[0].count", edit: func(p *v1alpha1.Pool) { p.Spec.GPUs[0].Count = 0 }},
		{name: "no model", want: "spec.gpus[0].model", edit: func(p *v1alpha1.Pool) { p.Spec.GPUs[0].Model = "" }},
		{name: "odd model", want: "spec.gpus[0].model", edit: func(p *v1alpha1.Pool) { p.Spec.GPUs[0].Model = "H100/2" }},
		{name: "GPU memory", want: "spec.gpus[0].memory", edit: func(p *v1alpha1.Pool) { p.Spec.GPUs[0].Memory = new(resource.MustParse("80")) }},
		{name: "many GPUs", want: "spec.gpus", edit: func(p *v1alpha1.Pool) {
			p.Spec.GPUs = []v1alpha1.GPU{{Model: "a", Count: 60}, {Model: "b", Count: 5}}
		}},
		{name: "many models", want: "spec.gpus", edit: func(p *v1alpha1.Pool) {
			p.Spec.GPUs = slices.Repeat(p.Spec.GPUs, 9)
		}},
		{name: "nvlink", want: "spec.nvlink", edit: func(p *v1alpha1.Pool) { p.Spec.NVLink = "ring" }},
		{name: "nvlink without GPUs", want: "spec.nvlink", edit: func(p *v1alpha1.Pool) { p.Spec.GPUs, p.Spec.NVLink = nil, "full" }},
		{name: "driver without GPUs", want: "spec.driver", edit: func(p *v1alpha1.Pool) {
			p.Spec.GPUs, p.Spec.Driver.Version = nil, "580.95.05"
		}},
		{name: "MIG", edit: func(p *v1alpha1.Pool) { p.Spec.MIG.Config = "all-1g.10gb" }},
		{name: "MIG strategy", want: "spec.mig.strategy", edit: func(p *v1alpha1.Pool) { p.Spec.MIG.Strategy = "both" }},
		{name: "MIG config", want: "spec.mig.config", edit: func(p *v1alpha1.Pool) { p.Spec.MIG.Config = "all 1g" }},
		{name: "MIG without GPUs", want: "spec.mig", edit: func(p *v1alpha1.Pool) { p.Spec.GPUs, p.Spec.MIG.Strategy = nil, "mixed" }},
		{name: "MIG with DRA", edit: func(p *v1alpha1.Pool) { p.Spec.Advertise, p.Spec.MIG = "dra", v1alpha1.MIG{Strategy: "dynamic"} }},
		{name: "MIG of a plugin with DRA", want: "spec.mig.strategy", edit: func(p *v1alpha1.Pool) { p.Spec.Advertise, p.Spec.MIG = "dra", v1alpha1.MIG{Strategy: "mixed"} }},
		{name: "MIG config with DRA", want: "spec.mig.config", edit: func(p *v1alpha1.Pool) { p.Spec.Advertise, p.Spec.MIG.Config = "dra", "all-balanced" }},
		{name: "dynamic MIG of a plugin", want: "spec.mig.strategy", edit: func(p *v1alpha1.Pool) { p.Spec.MIG.Strategy = "dynamic" }},
		{name: "MIG without a stack", want: "spec.mig", edit: func(p *v1alpha1.Pool) { p.Spec.GPUStack, p.Spec.MIG.Strategy = "none", "mixed" }},
		{name: "dra without GPUs", want: "spec.advertise", edit: func(p *v1alpha1.Pool) { p.Spec.GPUs, p.Spec.Advertise = nil, "dra" }},
		{name: "stack without GPUs", want: "spec.gpuStack", edit: func(p *v1alpha1.Pool) { p.Spec.GPUs, p.Spec.GPUStack = nil, "operator" }},
		{name: "advertise", want: "spec.advertise", edit: func(p *v1alpha1.Pool) { p.Spec.Advertise = "both" }},
		{name: "stack", want: "spec.gpuStack", edit: func(p *v1alpha1.Pool) { p.Spec.GPUStack = "helm" }},
		{name: "driver", want: "spec.driver.version", edit: func(p *v1alpha1.Pool) { p.Spec.Driver.Version = "latest" }},
		{name: "cuda", want: "spec.driver.cuda", edit: func(p *v1alpha1.Pool) { p.Spec.Driver.CUDA = "13" }},
		{name: "unknown branch", ours: true, want: "spec.driver.cuda", edit: func(p *v1alpha1.Pool) { p.Spec.Driver.Version = "999.1.1" }},
		{name: "no CPU", want: "spec.cpu", edit: func(p *v1alpha1.Pool) { p.Spec.CPU = new(resource.MustParse("0")) }},
		{name: "CPU in Gi", want: "spec.cpu", edit: func(p *v1alpha1.Pool) { p.Spec.CPU = new(resource.MustParse("16Gi")) }},
		{name: "memory", want: "spec.memory", edit: func(p *v1alpha1.Pool) { p.Spec.Memory = new(resource.MustParse("64")) }},
		{name: "disk", want: "spec.ephemeralStorage", edit: func(p *v1alpha1.Pool) { p.Spec.EphemeralStorage = new(resource.MustParse("-1Gi")) }},
		{name: "pods", want: "spec.pods", edit: func(p *v1alpha1.Pool) { p.Spec.Pods = new(int32(0)) }},
		{name: "GPUs as other resources", ours: true, want: "spec.extendedResources[nvidia.com/gpu]", edit: func(p *v1alpha1.Pool) {
			p.Spec.ExtendedResources = map[string]int32{"nvidia.com/gpu": 8, "google.com/tpu": 4}
		}},
		{name: "parts of GPUs as other resources", ours: true, want: "spec.extendedResources[nvidia.com/vgpu-memory]", edit: func(p *v1alpha1.Pool) {
			p.Spec.ExtendedResources = map[string]int32{"nvidia.com/vgpu-memory": 8, "nvidia.com/hostdev": 16}
		}},
		{name: "a MIG device as another resource", ours: true, want: "spec.extendedResources[nvidia.com/mig-1g.10gb]", edit: func(p *v1alpha1.Pool) {
			p.Spec.ExtendedResources = map[string]int32{"nvidia.com/mig-1g.10gb": 7}
		}},
		{name: "CPU as another resource", ours: true, want: "spec.extendedResources[cpu]", edit: func(p *v1alpha1.Pool) { p.Spec.ExtendedResources = map[string]int32{"cpu": 8} }},
		{name: "less than nothing", ours: true, want: "spec.extendedResources[google.com/tpu]", edit: func(p *v1alpha1.Pool) {
			p.Spec.ExtendedResources = map[string]int32{"google.com/tpu": -1}
		}},
		{name: "label", ours: true, want: "spec.labels[team]", edit: func(p *v1alpha1.Pool) { p.Spec.Labels = map[string]string{"team": "a b"} }},
		{name: "own label", ours: true, want: "spec.labels[berth.dev/pool]", edit: func(p *v1alpha1.Pool) {
			p.Spec.Labels = map[string]string{v1alpha1.LabelPool: "x"}
		}},
		{name: "taint effect", want: "spec.taints[0].effect", edit: func(p *v1alpha1.Pool) { p.Spec.Taints = []v1alpha1.Taint{{Key: "k", Effect: "No"}} }},
		{name: "taint key", want: "spec.taints[0].key", edit: func(p *v1alpha1.Pool) { p.Spec.Taints = []v1alpha1.Taint{{Effect: "NoSchedule"}} }},
		{name: "taint twice", ours: true, want: "spec.taints[1]", edit: func(p *v1alpha1.Pool) {
			p.Spec.Taints = []v1alpha1.Taint{{Key: "k", Effect: "NoSchedule"}, {Key: "k", Value: "v", Effect: "NoSchedule"}}
		}},
		{name: "zone", want: "spec.topology.zone", edit: func(p *v1alpha1.Pool) { p.Spec.Topology.Zone = "a zone" }},
		{name: "per rack", want: "spec.topology.nodesPerRack", edit: func(p *v1alpha1.Pool) { p.Spec.Topology.NodesPerRack = new(int32(0)) }},
		{name: "rack over blocks", want: "spec.topology.nodesPerBlock", edit: func(p *v1alpha1.Pool) {
			p.Spec.Topology.NodesPerRack, p.Spec.Topology.NodesPerBlock = new(int32(3)), new(int32(8))
		}},
		{name: "placement", want: "spec.placement", edit: func(p *v1alpha1.Pool) { p.Spec.Placement = "whole" }},
		{name: "class", want: "spec.workloadClass", edit: func(p *v1alpha1.Pool) { p.Spec.WorkloadClass = "fun" }},
		{name: "boot", want: "spec.boot.ready", edit: func(p *v1alpha1.Pool) { p.Spec.Boot.Ready = &metav1.Duration{Duration: -time.Second} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := goodPool()
			tc.edit(&p)
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p)
			if err != nil {
				t.Fatal(err)
			}
			v1alpha1.Default(&p)
			if diff := cmp.Diff(tc.want, wrongField(&p)); diff != "" {
				t.Errorf("field that Validate names (-want +got):\n%s", diff)
			}
			refused := server(object)
			if want := tc.want != "" && !tc.ours; want != (len(refused) > 0) {
				t.Errorf("the API server says %v, want refused=%v", refused.ToAggregate(), want)
			}
		})
	}
}

// wrongField is the only field that Validate complains of; empty: none.
func wrongField(p *v1alpha1.Pool) string {
	fields := ""
	for _, err := range v1alpha1.Validate(p) {
		if fields != "" {
			fields += ", "
		}
		fields += err.Field
	}
	return fields
}

func goodPool() v1alpha1.Pool {
	return v1alpha1.Pool{
		TypeMeta:   metav1.TypeMeta{APIVersion: "berth.dev/v1alpha1", Kind: "Pool"},
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: v1alpha1.PoolSpec{
			Nodes: new(int32(2)),
			GPUs:  []v1alpha1.GPU{{Model: "H100-SXM5-80GB", Count: 8}},
		},
	}
}
