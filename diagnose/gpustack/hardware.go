package gpustack

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

// This file is about devices that a machine has, whether or not its node advertises them: as labels, pools and instance
// types tell. What is installed decides whether a pod is too large; what is advertised, whether the platform has a gap.

// BerthPools are the pools of Berth's own fleet.
const BerthPools = "Pool.berth.dev"

// PoolLabels are the labels by which makers of nodes name a node's pool; Berth's own comes first.
var PoolLabels = []string{
	v1alpha1.LabelPool, "karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool",
	"agentpool", "gpu-pool",
}

// PooledGPUs is how many GPUs a node of the pool of Berth's fleet has by the pool's spec; false where there is no such
// pool, or pools were not read.
func PooledGPUs(f *facts.Facts, pool string) (int64, bool) {
	p := f.ForeignNamed(BerthPools, "", pool)
	if pool == "" || p == nil {
		return 0, false
	}
	var sum int64
	for _, g := range dialect.Items(p.Object, "spec", "gpus") {
		if n, ok := dialect.Number(g, "count"); ok {
			sum += n
		}
	}
	return sum, true
}

// instanceFamilies are the clouds' machine types with NVIDIA GPUs. The first group, where there is one, counts them.
var instanceFamilies = []*regexp.Regexp{
	regexp.MustCompile(`^a(?:[234]|4x)-(?:high|ultra|mega|edge|max)gpu-(\d+)g`), // Google
	regexp.MustCompile(`^g[24]-standard-\d+$`),
	regexp.MustCompile(`^(?:p[3-6][a-z-]*|g4dn|g5|g6e?|gr6)\.(?:\d*xlarge|metal)`), // Amazon
	regexp.MustCompile(`(?i)^standard_n[cdv]\d+`),                                  // Azure
	regexp.MustCompile(`(?i)^(?:bm|vm)\.gpu[.\d].*?\.(\d+)$`),                      // Oracle
	regexp.MustCompile(`^gpu_(\d+)x_`),                                             // Lambda
	regexp.MustCompile(`^gd-(\d+)x`),                                               // CoreWeave
}

// instanceSizes are how many GPUs those of Amazon's and Azure's types have whose names do not tell.
var instanceSizes = map[string]int64{
	"p3.2xlarge": 1, "p3.8xlarge": 4, "p3.16xlarge": 8, "p3dn.24xlarge": 8, "p4d.24xlarge": 8, "p4de.24xlarge": 8, "p5.4xlarge": 1, "p5.48xlarge": 8, "p5e.48xlarge": 8, "p5en.48xlarge": 8, "p6-b200.48xlarge": 8, "p6-b300.48xlarge": 8, "p6e-gb200.36xlarge": 4, "p6e-gb300.36xlarge": 4,
	"g4dn.12xlarge": 4, "g4dn.metal": 8, "g5.12xlarge": 4, "g5.24xlarge": 4, "g5.48xlarge": 8, "g6.12xlarge": 4, "g6.24xlarge": 4, "g6.48xlarge": 8, "g6e.12xlarge": 4, "g6e.24xlarge": 4, "g6e.48xlarge": 8,
	"g4dn.xlarge": 1, "g4dn.2xlarge": 1, "g4dn.4xlarge": 1, "g4dn.8xlarge": 1, "g4dn.16xlarge": 1, "g5.xlarge": 1, "g5.2xlarge": 1, "g5.4xlarge": 1, "g5.8xlarge": 1, "g5.16xlarge": 1,
	"g6.xlarge": 1, "g6.2xlarge": 1, "g6.4xlarge": 1, "g6.8xlarge": 1, "g6.16xlarge": 1, "g6e.xlarge": 1, "g6e.2xlarge": 1, "g6e.4xlarge": 1, "g6e.8xlarge": 1, "g6e.16xlarge": 1,
	"g2-standard-4": 1, "g2-standard-8": 1, "g2-standard-12": 1, "g2-standard-16": 1, "g2-standard-32": 1, "g2-standard-24": 2, "g2-standard-48": 4, "g2-standard-96": 8,
	"standard_nc24ads_a100_v4": 1, "standard_nc48ads_a100_v4": 2, "standard_nc96ads_a100_v4": 4, "standard_nc40ads_h100_v5": 1, "standard_nc80adis_h100_v5": 2,
	"standard_nd96asr_v4": 8, "standard_nd96amsr_a100_v4": 8, "standard_nd96isr_h100_v5": 8, "standard_nd96isr_h200_v5": 8, "standard_nd128isr_ndr_gb200_v6": 4,
}

// InstanceGPUs says whether machines of the type have NVIDIA GPUs, and how many; 0 where the name does not tell.
func InstanceGPUs(kind string) (n int64, ok bool) {
	if n, ok = instanceSizes[strings.ToLower(kind)]; ok {
		return n, true
	}
	for _, family := range instanceFamilies {
		m := family.FindStringSubmatch(kind)
		if m == nil {
			continue
		}
		if len(m) > 1 {
			n, _ = strconv.ParseInt(m[1], 10, 16)
		}
		return n, true
	}
	return 0, false
}

// hardware is how many GPUs the node's pool or machine type has, and who says so; false where neither is known to have any.
// 0: their number is unknown.
func hardware(f *facts.Facts, n *corev1.Node) (units int64, says string, ok bool) {
	if pool := n.Labels[v1alpha1.LabelPool]; pool != "" {
		if units, known := PooledGPUs(f, pool); known {
			return units, "pool " + pool, units > 0
		}
	}
	kind := n.Labels[corev1.LabelInstanceTypeStable]
	units, ok = InstanceGPUs(kind)
	return units, "instance type " + kind, ok
}

// Unadvertised says whether no node advertises the device, nor another one that could be meant: one of the same vendor, or
// of the same name. Then no pod that asks for it has a place, however little it asks for.
func Unadvertised(f *facts.Facts, device string) bool {
	if !f.Sees("nodes", "") {
		return false
	}
	vendor, name := deviceName(device)
	for _, n := range f.Nodes {
		for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
			for other, q := range list {
				if !strings.Contains(string(other), "/") || q.IsZero() || string(other) != device && networkWords.MatchString(string(other)) {
					continue
				}
				if v, m := deviceName(string(other)); string(other) == device || v == vendor || m == name && !(makers[v] && makers[vendor]) {
					return false
				}
			}
		}
	}
	for _, class := range f.DeviceClasses { // then drivers offer it, and not nodes
		if ptr.Deref(class.Spec.ExtendedResourceName, "") == device {
			return false
		}
	}
	return true
}

// makers of GPUs: the device of one is not another's.
var makers = map[string]bool{"nvidia": true, "amd": true, "intel": true, "habana": true, "huawei": true, "cambricon": true}

// deviceName is the maker of the device, by the first part of its domain, and what the device is called.
func deviceName(device string) (vendor, name string) {
	domain, name, _ := strings.Cut(device, "/")
	vendor, _, _ = strings.Cut(domain, ".")
	return vendor, name
}

// WillAdvertise says whether a new node of the make of this one would advertise what the node does: by the spec of its
// pool, and by the GPU software of nodes of the same make.
func WillAdvertise(f *facts.Facts, like *corev1.Node, device string) bool {
	if device == "" {
		return true
	}
	if pool := like.Labels[v1alpha1.LabelPool]; pool != "" {
		units, known := PooledGPUs(f, pool)
		if replicas, err := strconv.ParseInt(like.Labels[labelReplicas], 10, 16); err == nil && replicas > 1 {
			units *= replicas
		}
		if known && strings.HasPrefix(device, "nvidia.com/") && (units == 0 || device == string(WholeGPU) && Offers(like, WholeGPU) > units) {
			return false // it was written into the status of the existing nodes by hand
		}
	}
	return softwareReaches(f, like)
}

// softwareReaches says whether the GPU software would come to a new node of this make and work there, as far as it can be
// told: where none is seen, it is taken to be part of the machines.
func softwareReaches(f *facts.Facts, like *corev1.Node) bool {
	s := Of(f)
	g := s.Nodes[like.Name]
	if g == nil || s.byClaim(like) || len(g.Pods[RolePlugin]) == 0 && g.Labels[LabelDeploy+Operand[RolePlugin]] != "true" {
		return true
	}
	for name, fault := range s.Faults {
		if n := s.Nodes[name]; fault != FaultNone && fault != FaultUnhealthy && fault != FaultKubelet && n != nil && sameMake(n.Node, like) {
			return false
		}
	}
	if len(s.Sets[RolePlugin]) == 0 {
		return false // what is advertised now was made by one that is gone
	}
	for _, d := range s.Sets[RolePlugin] {
		if a, _ := KeptOff(d, like); a.Key == "" && a.Taint == nil && !a.Other && MountsSockets(&d.Spec.Template.Spec) {
			return true
		}
	}
	return false
}

// sameMake says whether both nodes are of one pool, by the closest name that they have for it.
func sameMake(a, b *corev1.Node) bool {
	x, y := poolsOf(a), poolsOf(b)
	return len(x) > 0 && len(y) > 0 && x[0] == y[0]
}

// Installed is how many GPUs the node's pool or machine type has, and who says so; 0 where neither tells.
func Installed(f *facts.Facts, n *corev1.Node) (units int64, says string) {
	units, says, _ = hardware(f, n)
	return units, says
}
