package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const nodeName = "real-0"

// computer is the node as the test handles it: a folder that is its disk, and, while it is on, a process that is its process 1.
type computer struct {
	dir, tools, group string
	cmd               *exec.Cmd
}

func (c *computer) file(name ...string) string {
	return filepath.Join(append([]string{c.dir}, name...)...)
}
func (c *computer) log(name string) string { return c.file("log", name+".log") }
func (c *computer) socket() string         { return c.file("containerd.sock") }

// newComputer makes the disk: configuration, identity, and empty folders.
func newComputer(dir, tools, group, server, keys string) (*computer, error) {
	c := &computer{dir: dir, tools: tools, group: group}
	for _, name := range []string{"log", "cni", "kubelet", "varlog", "containerd", "devices", "volume-plugins"} {
		if err := os.MkdirAll(c.file(name), 0o755); err != nil {
			return nil, err
		}
	}
	for file, text := range map[string]string{"containerd.toml": containerdConfig, "kubelet.yaml": kubeletConfig, "cni/net.conflist": networkConfig} {
		var b bytes.Buffer
		if err := template.Must(template.New(file).Parse(text)).Execute(&b, map[string]any{
			"Dir": c.dir, "Tools": c.tools, "Group": c.group, "Keys": keys, "Socket": c.socket(), "Address": nodeAddress.IP, "Pods": podRange, "Pause": pauseImage,
		}); err != nil {
			return nil, err
		}
		if err := os.WriteFile(c.file(file), b.Bytes(), 0o644); err != nil {
			return nil, err
		}
	}
	return c, c.identify(server, keys)
}

// containerd's configuration of version 2, which 1.6 and 2.x both read. Nothing may raise a process's OOM score here.
const containerdConfig = `version = 2
root = "{{.Dir}}/containerd"
state = "/run/containerd"
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/run/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Pause}}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{.Tools}}"
    conf_dir = "{{.Dir}}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{{.Tools}}/runc"
      SystemdCgroup = false
`

const networkConfig = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods", "isGateway": true, "isDefaultGateway": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "{{.Pods}}"}]], "dataDir": "{{.Dir}}/addresses"}}]}
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.Address}}
healthzBindAddress: 127.0.0.1
readOnlyPort: 0
containerRuntimeEndpoint: unix://{{.Socket}}
volumePluginDir: {{.Dir}}/volume-plugins
cgroupDriver: cgroupfs
cgroupRoot: /{{.Group}}
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
resolvConf: ""
tlsCertFile: {{.Dir}}/kubelet.crt
tlsPrivateKeyFile: {{.Dir}}/kubelet.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: {{.Keys}}/ca.crt}}
authorization: {mode: AlwaysAllow}
nodeStatusUpdateFrequency: 2s
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
`

// identify gives the node a certificate of the cluster's authority, for its calls and for its own server, and a kubeconfig.
func (c *computer) identify(server, keys string) error {
	ca, err := tls.LoadX509KeyPair(filepath.Join(keys, "ca.crt"), filepath.Join(keys, "ca.key"))
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority, err := x509.ParseCertificate(ca.Certificate[0])
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{nodeAddress.IP}, DNSNames: []string{nodeName},
	}, authority, &key.PublicKey, ca.PrivateKey)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{"kubelet.crt": {Type: "CERTIFICATE", Bytes: der}, "kubelet.key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(c.file(name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["it"] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: filepath.Join(keys, "ca.crt")}
	config.AuthInfos["it"] = &clientcmdapi.AuthInfo{ClientCertificate: c.file("kubelet.crt"), ClientKey: c.file("kubelet.key")}
	config.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	config.CurrentContext = "it"
	return clientcmd.WriteToFile(*config, c.file("kubeconfig"))
}

// on starts the node: a new boot of the same disk.
func (c *computer) on() error {
	out, err := os.OpenFile(c.log("machine"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := makeGroup(c.group); err != nil {
		return err
	}
	c.cmd = exec.Command("/proc/self/exe", "machine", c.dir, c.tools)
	c.cmd.Env = append(os.Environ(), "PATH="+c.tools+":"+os.Getenv("PATH"))
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: machineFlags}
	return c.cmd.Start()
}

// off takes the power away: all processes of the node and its mounts are gone, and the disk stays.
func (c *computer) off() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	c.cmd.Wait()
	var err error
	for range 100 { // the last processes leave their groups a moment after they ended
		if err = removeGroup(c.group); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// ctr calls containerd on the node.
func (c *computer) ctr(args ...string) (string, error) {
	out, err := exec.Command(filepath.Join(c.tools, "ctr"), append([]string{"--address", c.socket(), "--namespace", "k8s.io"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// machine is process 1 of the node: it mounts what a boot mounts, and keeps containerd and the kubelet running as systemd would.
func machine(args []string) int {
	c := &computer{dir: args[0], tools: args[1]}
	if err := c.boot(); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		return 1
	}
	programs := map[string][]string{
		"containerd": {filepath.Join(c.tools, "containerd"), "--config", c.file("containerd.toml")},
		"kubelet": {
			filepath.Join(c.tools, "kubelet"), "--config", c.file("kubelet.yaml"), "--kubeconfig", c.file("kubeconfig"), "--hostname-override", nodeName,
			"--node-ip", nodeAddress.IP.String(), "--cert-dir", c.file("kubelet"), "--node-labels", "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3",
		},
	}
	running := map[int]string{}
	start := func(name string) {
		pid, err := spawn(c.log(name), programs[name]...)
		if err != nil {
			fmt.Fprintln(os.Stderr, "machine:", name, err)
			return
		}
		running[pid] = name
	}
	start("containerd")
	start("kubelet")
	return reap(0, func(pid int) {
		if name, ok := running[pid]; ok {
			delete(running, pid)
			fmt.Fprintln(os.Stderr, "machine:", name, "ended and is started again")
			time.Sleep(500 * time.Millisecond)
			start(name)
		}
	})
}

// boot mounts what is new at each boot, and the parts of the disk under the names that kubelets insist on.
func (c *computer) boot() error {
	if err := ownMounts(); err != nil {
		return err
	}
	id := c.file("boot_id")
	if err := os.WriteFile(id, fmt.Appendf(nil, "%s\n", uuid()), 0o644); err != nil {
		return err
	}
	steps := []struct{ from, to, kind string }{
		{"tmpfs", "/run", "tmpfs"},
		{"tmpfs", "/var/lib", "tmpfs"},
		{c.file("kubelet"), "/var/lib/kubelet", ""},
		{c.file("varlog"), "/var/log", ""},
		{id, "/proc/sys/kernel/random/boot_id", ""}, // the kernel's own does not change with the node's boots
	}
	for _, s := range steps {
		flags := uintptr(0)
		if s.kind == "" {
			flags = unix.MS_BIND
			if s.to == "/var/lib/kubelet" {
				if err := os.MkdirAll(s.to, 0o755); err != nil {
					return err
				}
			}
		}
		if err := unix.Mount(s.from, s.to, s.kind, flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", s.to, err)
		}
	}
	if err := unix.Sethostname([]byte(nodeName)); err != nil {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") // containers' volumes come from here
}

func uuid() string {
	b := make([]byte, 16)
	rand.Read(b)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
