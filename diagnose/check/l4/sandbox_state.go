package l4

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

// Events about a sandbox are gone after an hour, and the pod still waits. What keeps its network from being made shows in the
// pods of the network plugin on its node.

// sandboxTakes is more than a sandbox takes whose network works.
const sandboxTakes = 2 * time.Minute

// standingSandbox is what objects say of the network that the pod waits for.
func standingSandbox(c *check.Case) []check.Finding {
	if !life.AwaitsContainers(c) || c.Now.Sub(life.Since(c.Pod)) < sandboxTakes || life.HasSandbox(c.Pod) {
		return nil
	}
	if p := networkPod(c); p != nil && !c.Pod.Spec.HostNetwork {
		return []check.Finding{{
			Layer: check.L2, Owner: check.Platform,
			Message:  fmt.Sprintf("node %s has made no sandbox for pod %s: pod %s in namespace %s, which sets up networks there, is %s", c.Pod.Spec.NodeName, c.Pod.Name, p.Name, p.Namespace, gpustack.Trouble(p)),
			Evidence: []facts.Evidence{{Object: facts.RefTo(p).In(), Field: "status", Value: gpustack.Trouble(p)}},
			Advice:   fmt.Sprintf("Read the log of pod %s in namespace %s: without it no pod gets a network on node %s.", p.Name, p.Namespace, c.Pod.Spec.NodeName),
		}}
	}
	return nil
}

// networkPod is a pod on the pod's node that is not ready and has the folder in which network plugins are set up.
func networkPod(c *check.Case) *corev1.Pod {
	for _, p := range c.PodsOn(c.Pod.Spec.NodeName) {
		if _, ok := c.Controller(p).(*appsv1.DaemonSet); !ok || readyNow(p) || p.DeletionTimestamp != nil {
			continue
		}
		if slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.HostPath != nil && (gpustack.HoldsDir("/etc/cni", strings.TrimSuffix(v.HostPath.Path, "/")) || gpustack.HoldsDir("/opt/cni", strings.TrimSuffix(v.HostPath.Path, "/")))
		}) {
			return p
		}
	}
	return nil
}
