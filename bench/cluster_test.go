package bench

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster is one started with the binary in $BERTH.
type cluster struct {
	b      *testing.B
	binary string
	home   string
	took   time.Duration // from exec to ready
}

func newCluster(b *testing.B) *cluster {
	binary := os.Getenv("BERTH")
	if binary == "" {
		b.Skip("set BERTH to a built binary, or run `make bench`")
	}
	c := &cluster{b: b, binary: binary, home: b.TempDir()}
	b.Cleanup(func() { c.try("down", "--purge") })
	return c
}

func (c *cluster) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.binary, args...)
	cmd.Env = append(os.Environ(), "BERTH_HOME="+c.home)
	return cmd
}

func (c *cluster) try(args ...string) ([]byte, error) { return c.command(args...).CombinedOutput() }

func (c *cluster) run(args ...string) {
	c.b.Helper()
	if out, err := c.try(args...); err != nil {
		c.b.Fatalf("berth %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// up starts the cluster and returns when `berth up` says it is ready.
func (c *cluster) up(args ...string) {
	c.b.Helper()
	start := time.Now()
	c.run(append([]string{"up", "--detach"}, args...)...)
	c.took = time.Since(start)
}

func (c *cluster) client() kubernetes.Interface {
	c.b.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.home, "berth", "kubeconfig"))
	if err != nil {
		c.b.Fatal(err)
	}
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		c.b.Fatal(err)
	}
	return client
}

func (c *cluster) pid() int {
	c.b.Helper()
	data, err := os.ReadFile(filepath.Join(c.home, "berth", "lock"))
	if err != nil {
		c.b.Fatal(err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(data)))
	if err != nil {
		c.b.Fatal(err)
	}
	return pid
}

// cpu is the processor time the cluster's process has used.
func (c *cluster) cpu() time.Duration {
	c.b.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(c.pid()) + "/stat")
	if err != nil {
		c.b.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}

// residentMiB is the memory the cluster's process holds.
func (c *cluster) residentMiB() float64 {
	c.b.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(c.pid()) + "/status")
	if err != nil {
		c.b.Fatal(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(v)[0])
			return float64(kib) / 1024
		}
	}
	c.b.Fatal("no VmRSS")
	return 0
}

// parallel calls f(0..n-1) from 32 goroutines and returns how long all of it took.
func parallel(b *testing.B, n int, f func(i int) error) time.Duration {
	b.Helper()
	const workers = 32
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					b.Errorf("%d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return time.Since(start)
}

// waitCount polls until count returns want.
func waitCount(b *testing.B, what string, want int, limit time.Duration, count func() int) {
	b.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		got := count()
		if got >= want {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%s: %d of %d after %s", what, got, want, limit)
		}
	}
}

func readyNodes(b *testing.B, client kubernetes.Interface) int {
	b.Helper()
	list, err := client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	return n
}

// fleetFile writes a fleet of one pool of plain nodes.
func fleetFile(b *testing.B, nodes int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "fleet.yaml")
	text := "apiVersion: berth.dev/v1alpha1\nkind: Pool\nmetadata: {name: n}\nspec:\n  nodes: " + strconv.Itoa(nodes) + "\n  gpus: [{model: h100, count: 8}]\n  gpuStack: none\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}
