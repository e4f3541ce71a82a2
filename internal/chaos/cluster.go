package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-dev/berth/controlplane/home"
)

// The cluster: sixteen nodes of eight GPUs in two zones of two racks each, with a life ten times faster than the
// wall clock.
const (
	nodes = 16
	speed = 10
	fleet = `apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: north}
spec:
  nodes: 8
  gpus: [{model: h100, count: 8}]
  taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
  topology: {region: here, zone: north, rack: north, nodesPerRack: 4}
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: south}
spec:
  nodes: 8
  gpus: [{model: h100, count: 8}]
  taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
  topology: {region: here, zone: south, rack: south, nodesPerRack: 4}
`
)

// pools are those of the fleet, each with an equal part of the nodes.
var pools = [...]string{"north", "south"}

// node is the name of the i-th.
func node(i int) string {
	const each = nodes / len(pools)
	return fmt.Sprintf("%s-%d", pools[i/each], i%each)
}

// cluster is `berth up` in a process of its own: etcd, API server, controllers, the stock scheduler, the fleet
// and the Berth inside. Its data lasts over its deaths.
type cluster struct {
	*process
	dir home.Dir
}

func newCluster(o options, fleet string, died func(string, *exitInfo)) (*cluster, error) {
	file := filepath.Join(o.dir, "fleet.yaml")
	if err := os.WriteFile(file, []byte(fleet), 0o600); err != nil {
		return nil, err
	}
	c := &cluster{dir: home.Dir{Path: filepath.Join(o.dir, "data")}}
	if err := os.MkdirAll(c.dir.Path, 0o700); err != nil {
		return nil, err
	}
	p, err := newProcess(o.dir, "cluster", died, o.berth, "up", "--name", "chaos", "--data", c.dir.Path,
		"--fleet", file, "--speed", strconv.Itoa(speed), "--gang-grace", gangGrace.String(), "--min-run-time", minRun.String())
	if err != nil {
		return nil, err
	}
	p.env = []string{"BERTH_HOME=" + filepath.Join(o.dir, "home")}
	c.process = p
	return c, nil
}

// ready waits until the cluster, in the life it has then, says that it can be used.
func (c *cluster) ready(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		r, err := c.dir.Load()
		if err == nil && r.Ready && r.PID != 0 && r.PID == c.pid() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster is not ready after %v: see %s and %s", within, c.output.Name(), c.dir.Log())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// admin reaches the API server directly.
func (c *cluster) admin() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.dir.Kubeconfig())
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Timeout = -1, 10*time.Second
	return cfg, nil
}

// schedulerConfig writes a kubeconfig by which a scheduler reaches the API server through the proxy, with the
// rights of a scheduler and no more.
func (c *cluster) schedulerConfig(p *proxy, path string) error {
	token, err := os.ReadFile(filepath.Join(c.dir.Keys(), "berth-scheduler.token"))
	if err != nil {
		return err
	}
	k := clientcmdapi.NewConfig()
	k.Clusters["chaos"] = &clientcmdapi.Cluster{Server: "https://" + p.addr, CertificateAuthorityData: p.ca}
	k.AuthInfos["chaos"] = &clientcmdapi.AuthInfo{Token: strings.TrimSpace(string(token))}
	k.Contexts["chaos"] = &clientcmdapi.Context{Cluster: "chaos", AuthInfo: "chaos"}
	k.CurrentContext = "chaos"
	return clientcmd.WriteToFile(*k, path)
}
