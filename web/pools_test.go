package web

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// pooled is a node of a pool that advertises so many GPUs, and says nothing else of them; without any, not even that there are none.
func pooled(name, pool string, advertised int64) *corev1.Node {
	n := gpuNode(name, "b", "r", advertised)
	n.Labels = map[string]string{v1alpha1.LabelPool: pool, v1alpha1.LabelBlock: "b", v1alpha1.LabelRack: "r"}
	if advertised == 0 {
		n.Status.Capacity, n.Status.Allocatable = corev1.ResourceList{}, corev1.ResourceList{}
	}
	return n
}

// TestPools draws the GPUs that a node's Pool says it has, though the node advertises fewer, or none, or has forgotten that it had any.
func TestPools(t *testing.T) {
	a := newAPIServer(t)
	for name, advertised := range map[string]int64{"all": 8, "some": 6, "none": 0, "more": 12} {
		a.put("nodes", pooled(name, "h100", advertised))
	}
	gone := pooled("gone", "h100", 8) // the kubelet remembers a plugin that is away
	gone.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("0")
	a.put("nodes", gone)
	a.put("nodes", pooled("cpu", "none", 0))
	a.put("pods", gpuPod("team", "p", "some", 5))
	s, get := serve(t, a, &scripted{})
	v := view(t, get("/api/stream").Body)
	v.until("what the nodes themselves say", v.has(kindNode, "some", `{"n":1,"stage":"schedulable","cause":"idle"}]`))
	if source := string(v.values[kindSource]["pools"]); source != `{"synced":true}` {
		t.Errorf("an API server without pools: %s", source)
	}

	// The Pools' definition is installed later. A pool of a million nodes costs nothing: those that are there are drawn.
	a.put("pools", poolOf("h100", 100_000, 8))
	a.put("pools", poolOf("none", 3, 0))
	for name, want := range map[string]string{
		"all":  `"gpus":[{"n":8,"stage":"schedulable"`,
		"some": `"gpus":[{"n":5,"stage":"allocated"`,
		"none": `"gpus":[{"n":8,"stage":"ready"`,
		"gone": `"gpus":[{"n":8,"stage":"ready"`,
		"more": `"gpus":[{"n":8,"stage":"schedulable"`,
	} {
		v.until(name+" as its pool says", v.has(kindNode, name, want))
	}
	v.until("the two that some does not advertise", v.has(kindNode, "some", `{"n":2,"stage":"ready","cause":"device-not-advertised"}`))
	if v.values[kindNode]["cpu"] != nil || len(v.values[kindNode]) != 5 {
		t.Errorf("drawn: %d nodes, cpu %s", len(v.values[kindNode]), v.values[kindNode]["cpu"])
	}

	// A pool that is changed changes its nodes.
	a.put("pools", poolOf("h100", 100_000, 4))
	v.until("four", v.has(kindNode, "none", `"gpus":[{"n":4,"stage":"ready"`))
	began := time.Now()
	f, _, _ := s.reader.read()
	fleetOf(around(f, map[string]bool{"some": true}))
	if took := time.Since(began); took > time.Second {
		t.Errorf("a node of a large pool takes %v to count", took)
	}
}

// TestPoolsForbidden are there and may not be read: that is said.
func TestPoolsForbidden(t *testing.T) {
	a := newAPIServer(t)
	a.forbidden["pools"] = true
	a.put("nodes", gpuNode("n", "b", "r", 8))
	_, get := serve(t, a, &scripted{})
	v := view(t, get("/api/stream").Body)
	v.until("that pools may not be read", v.has(kindSource, "pools", `"forbidden":true`))
	v.until("the node", v.has(kindNode, "n", `"n":8`))
	if strings.Contains(string(encode(v.values[kindSource]["nodes"])), "forbidden") {
		t.Error("nodes may be read")
	}
}

// TestPoolsInTheBrowser shows what is not advertised as cells of their own.
func TestPoolsInTheBrowser(t *testing.T) {
	a := newAPIServer(t)
	a.put("pools", poolOf("h100", 4, 8))
	for name, advertised := range map[string]int64{"h100-0": 8, "h100-1": 6, "h100-2": 0, "h100-3": 8} {
		a.put("nodes", pooled(name, "h100", advertised))
	}
	s := start(t, a, research(), time.Second)
	b := browse(t, 1280, 800)
	b.open(s.Link())
	b.Until(`document.querySelector(".sum")?.innerText.startsWith("32 GPUs on 4 nodes")`)
	b.Until(`[...document.querySelectorAll(".legend .key")].some((k) => k.innerText === "not advertised 10")`)
	b.Do(`const s = document.querySelector("input[type=search]"); s.value = "not advertised"; s.dispatchEvent(new Event("input"))`)
	b.Until(`document.querySelector(".sum").innerText.startsWith("10 GPUs match on 2 nodes")`)
	b.Do(`const s = document.querySelector("input[type=search]"); s.value = ""; s.dispatchEvent(new Event("input"))`)
	b.goTo("fleet?sel=h100-1")
	b.Until(`document.querySelector(".detail").innerText.includes("not advertised")`)
	b.sound("pools")
	b.keep("pools")
}
