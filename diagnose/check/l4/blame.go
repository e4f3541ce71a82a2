package l4

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/network"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// A program that fails often says of what: of a file, of the memory that its processes share, of devices that it does not find. Whose
// that is, is not in its words: they are compared with what the pod mounts and asks for.

// lastLines is how many lines at the end of a log are asked what the program died of: what came before, it has got over.
const lastLines = 8

var (
	ofSharedMemory = regexp.MustCompile(`(?i)(insufficient|out of) shared memory|/dev/shm\b.*(no space left|cannot allocate|failed)|(no space left|failed to extend).*/dev/shm\b|bus error \(core dumped\)|killed by signal: bus error`)
	ofLostProcess  = regexp.MustCompile(`(?i)killed by signal: killed|signal 9 \(sigkill\)|exited with signal 9\b|exitcode\s*:\s*-9\b`)
	ofFullDisk     = regexp.MustCompile(`(?i)no space left on device|disk quota exceeded|errno 28\b|errno 122\b`)
	ofStorage      = regexp.MustCompile(`(?i)stale (nfs )?file handle|transport endpoint is not connected|input/output error|remote i/o error|structure needs cleaning|errno (5|107|116|117|121)\b`)
	ofNetworkFiles = regexp.MustCompile(`(?i)stale (nfs )?file handle|transport endpoint is not connected|remote i/o error|errno (107|116|121)\b`)
	ofReadOnly     = regexp.MustCompile(`(?i)read-only file system|errno 30\b`)
	ofRights       = regexp.MustCompile(`(?i)permission denied|errno 13\b`)
	ofNoDevice     = regexp.MustCompile(`(?i)lib(cuda|nvidia-ml)\.so\S* ?:? cannot open|no (cuda|hip) gpus are available|found no nvidia driver|failed to infer device type|nvml shared library not found|no cuda-capable device|cuda_error_no_device|no neuron device|hsa_status_error_no_devices|no gpu (was |were )?(found|detected)`)

	ofSharing = regexp.MustCompile(`(?i)mps client failed to connect|mps control daemon|cuda_error_mps_\w+|cudaerrormps\w+`)

	// What getaddrinfo, Go's resolver and ssh say of a name that they cannot look up, and of a DNS server that does not answer.
	ofNoName = regexp.MustCompile(`(?i)name or service not known|nodename nor servname|name does not resolve|no such host|could not resolve host|gai error|temporary failure in name resolution`)
	ofNoDNS  = regexp.MustCompile(`(?i)temporary failure in name resolution|gai error: -3\b`)
	nameIn   = regexp.MustCompile(`[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*`)

	// NCCL and UCX where the kernel lets them pin no more memory for a network card.
	ofPinning = regexp.MustCompile(`(?i)(ibv_reg_mr|unable to register memory).*cannot allocate memory|ibv_reg_mr.*memlock|please set max locked memory`)

	pathIn = regexp.MustCompile(`(?:^|[\s'"=:(])(/[^\s'":,;)]+)`)
)

// blames finds what the container's program says that it died of, and whose that is.
func blames(c *check.Case, k *life.Container, log, who, times string) (check.Finding, bool) {
	for _, row := range []struct {
		words *regexp.Regexp
		find  func(*check.Case, *life.Container, string) (what string, f check.Finding)
	}{
		{ofPinning, pinsNoMemory}, {ofSharedMemory, sharesMemory}, {ofLostProcess, losesProcess}, {ofNoDevice, findsNoDevice}, {ofSharing, sharesInVain},
		{ofFullDisk, fillsDisk}, {ofStorage, losesStorage}, {ofReadOnly, writesInVain}, {ofRights, mayNot}, {ofNoName, findsNoName},
		{ofNoAnswer, walledOff},
	} {
		line := lineWith(ending(log), row.words)
		if line == "" {
			continue
		}
		what, f := row.find(c, k, line)
		if what == "" {
			continue
		}
		f.Message = fmt.Sprintf("%s %s (%s): %s", who, what, times, wording.Shortened(line, 160))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: wording.Shortened(line, 200)})
		return f, true
	}
	return check.Finding{}, false
}

// ending are the last lines of a log.
func ending(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-lastLines):], "\n")
}

// mountOf is the volume of the container with the first path of the line that is in one; nil: the line has no path in a volume.
func mountOf(p *corev1.Pod, k *life.Container, line string) (path string, m *corev1.VolumeMount, v *corev1.Volume) {
	for _, found := range pathIn.FindAllStringSubmatch(line, -1) {
		path = found[1]
		for i := range k.VolumeMounts {
			at := &k.VolumeMounts[i]
			in := path == at.MountPath || strings.HasPrefix(path, strings.TrimSuffix(at.MountPath, "/")+"/")
			if in && (m == nil || len(at.MountPath) > len(m.MountPath)) {
				m = at
			}
		}
		if m != nil {
			break
		}
	}
	if m == nil {
		return path, nil, nil
	}
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == m.Name {
			return path, m, &p.Spec.Volumes[i]
		}
	}
	return path, nil, nil
}

// local says whether the volume is a part of the node, or of its memory.
func local(v *corev1.Volume) bool { return v.EmptyDir != nil || v.HostPath != nil }

func shownMount(c *check.Case, k *life.Container, m *corev1.VolumeMount) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.containers[%q].volumeMounts[%q]", k.Name, m.Name), Value: m.MountPath}
}

// losesStorage is about files whose server, or disk, does not answer for them.
func losesStorage(c *check.Case, k *life.Container, line string) (string, check.Finding) {
	path, m, v := mountOf(c.Pod, k, line)
	switch {
	case v == nil && path == "":
		return "", check.Finding{} // it may be about a socket
	case (v == nil || local(v)) && ofNetworkFiles.MatchString(line):
		return fmt.Sprintf("lost the storage behind %s", path), check.Finding{Owner: check.Storage, Advice: "Have the file system that is mounted there looked at, and mount it again."}
	case v == nil || local(v):
		return fmt.Sprintf("cannot read or write %s, which is on the disk of node %s", path, c.Pod.Spec.NodeName),
			check.Finding{Layer: check.L2, Owner: check.Platform, Advice: fmt.Sprintf("Look at the disks of node %s, and keep work off it until then.", c.Pod.Spec.NodeName)}
	}
	return fmt.Sprintf("lost the storage behind volume %s", v.Name), check.Finding{Owner: check.Storage, Evidence: []facts.Evidence{shownMount(c, k, m)},
		Advice: "Have the storage behind the volume looked at; a mount that has gone stale is made again with the pod."}
}

// fillsDisk is about files for which there is no room.
func fillsDisk(c *check.Case, k *life.Container, line string) (string, check.Finding) {
	path, m, v := mountOf(c.Pod, k, line)
	switch {
	case strings.HasPrefix(path, "/dev/shm"):
		return sharesMemory(c, k, line)
	case path == "":
		return "found no room on a disk", check.Finding{Owner: check.User, Advice: "Write less, clean up, or give the pod a larger volume where it writes."}
	case v == nil || v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory:
		return fmt.Sprintf("found no room for %s on the disk of node %s", path, c.Pod.Spec.NodeName),
			check.Finding{Layer: check.L2, Owner: check.Platform, Advice: fmt.Sprintf("Free space on the disk of node %s, or have the program write to a volume of its own.", c.Pod.Spec.NodeName)}
	}
	return fmt.Sprintf("has filled volume %s", v.Name), check.Finding{Owner: check.User, Evidence: []facts.Evidence{shownMount(c, k, m)},
		Advice: "Delete what is not needed any more, or make the volume larger: raise the claim's request where its class lets volumes grow."}
}

// writesInVain is about files that may not be written.
func writesInVain(c *check.Case, k *life.Container, line string) (string, check.Finding) {
	path, m, v := mountOf(c.Pod, k, line)
	root := k.SecurityContext != nil && k.SecurityContext.ReadOnlyRootFilesystem != nil && *k.SecurityContext.ReadOnlyRootFilesystem
	switch {
	case v == nil && root:
		return fmt.Sprintf("writes to %s, and its securityContext makes its file system read-only", cmp.Or(path, "its file system")),
			check.Finding{Owner: check.User, Advice: "Mount an emptyDir where the program writes, or let it write to its file system."}
	case v != nil && (m.ReadOnly || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil):
		return fmt.Sprintf("writes to volume %s, which it mounts read-only", v.Name), check.Finding{Owner: check.User, Evidence: []facts.Evidence{shownMount(c, k, m)}, Advice: "Mount the volume for writing, or have the program write elsewhere."}
	}
	return losesStorage(c, k, line)
}

// mayNot is about files of a volume that belong to others.
func mayNot(c *check.Case, k *life.Container, line string) (string, check.Finding) {
	_, m, v := mountOf(c.Pod, k, line)
	if v == nil {
		return "", check.Finding{}
	}
	return fmt.Sprintf("may not use files of volume %s", v.Name), check.Finding{Owner: check.User, Evidence: []facts.Evidence{shownMount(c, k, m)},
		Advice: "Run the program as the user or group that owns the files (securityContext: runAsUser, fsGroup), or change who owns them."}
}

// losesProcess is about a process of the program that was killed from outside, as the kernel does when a container's memory is used up:
// the container's first process lives on, so that the kubelet does not call it OOMKilled.
func losesProcess(c *check.Case, k *life.Container, _ string) (string, check.Finding) {
	limit, _ := memoryLimit(c.Pod, k)
	if limit.IsZero() {
		return "lost a process, which was killed, as the kernel does where a node has no memory left", check.Finding{Advice: "Request as much memory as the program needs, so that it gets a node that has it."}
	}
	return fmt.Sprintf("lost a process, which was killed, as the kernel does where its memory limit of %s is reached", &limit),
		check.Finding{Edits: []edit.Edit{moreMemory(c, k, limit)}, Advice: "Raise the memory limit, or have the program use less: fewer data loader workers, smaller batches."}
}

// sharesInVain is about a GPU that several containers share through a daemon of the node, which the program does not reach.
func sharesInVain(c *check.Case, _ *life.Container, _ string) (string, check.Finding) {
	return fmt.Sprintf("does not reach the MPS control daemon of node %s, through which GPUs are shared there", c.Pod.Spec.NodeName),
		check.Finding{Layer: check.L2, Owner: check.Platform, Advice: "Look at the pod of the MPS control daemon on that node, and at the folder of its pipes that the device plugin mounts."}
}

// shmPath is where programs share memory. Without a volume there, runtimes give a container 64 MiB.
const shmPath = "/dev/shm"

// sharesMemory is about processes that share memory with each other: data loaders, and NCCL within a node.
func sharesMemory(c *check.Case, k *life.Container, _ string) (string, check.Finding) {
	f := check.Finding{Owner: check.User, Advice: "Mount an emptyDir of medium Memory at " + shmPath + ", or have fewer processes share memory."}
	at := slices.IndexFunc(k.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.TrimSuffix(m.MountPath, "/") == shmPath })
	if at < 0 {
		if !c.Pod.Spec.HostIPC {
			f.Edits = []edit.Edit{mountShm(c, k)}
		}
		f.Evidence = []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.containers[%q].volumeMounts", k.Name), Value: "nothing at " + shmPath}}
		return fmt.Sprintf("needs more shared memory than the 64Mi that a container has without a volume at %s", shmPath), f
	}
	f.Evidence = []facts.Evidence{shownMount(c, k, &k.VolumeMounts[at])}
	volumes := place.Written(c).Spec.Volumes
	i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == k.VolumeMounts[at].Name })
	if i < 0 || volumes[i].EmptyDir == nil || volumes[i].EmptyDir.SizeLimit == nil {
		return "needs more shared memory than there is", f
	}
	f.Edits = []edit.Edit{place.LargerEmptyDir(i, &volumes[i])}
	return fmt.Sprintf("needs more shared memory than the %s of volume %s", volumes[i].EmptyDir.SizeLimit, volumes[i].Name), f
}

// mountShm gives the container shared memory of its own, which counts against its memory limit.
func mountShm(c *check.Case, k *life.Container) edit.Edit {
	volume := map[string]any{"name": "shm", "emptyDir": map[string]any{"medium": "Memory"}}
	mount := map[string]any{"name": "shm", "mountPath": shmPath}
	add := func(has int, path string, what map[string]any) edit.Op {
		if has == 0 {
			return edit.Op{Op: "add", Path: path, Value: []any{what}}
		}
		return edit.Op{Op: "add", Path: path + "/-", Value: what}
	}
	e := edit.Edit{
		Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("mount an emptyDir of medium Memory at %s of %s", shmPath, k.Noun()),
		Ops:     []edit.Op{add(len(place.Written(c).Spec.Volumes), "/spec/volumes", volume), add(len(life.Authored(c, k).VolumeMounts), k.Path("volumeMounts"), mount)},
		Assumes: "the node has memory enough for what the processes share",
	}
	if limit, _ := memoryLimit(c.Pod, k); !limit.IsZero() {
		e.Assumes = "the memory limit of " + limit.String() + " has room for what the processes share"
	}
	return e
}

// findsNoDevice is about a program that looks for GPUs and finds none.
func findsNoDevice(c *check.Case, k *life.Container, _ string) (string, check.Finding) {
	at := facts.RefTo(c.Pod).In()
	if !life.UsesDevices(k.Container) {
		f := check.Finding{Owner: check.User, Advice: "Ask for the GPUs in the resources of this container.",
			Evidence: []facts.Evidence{{Object: at, Field: fmt.Sprintf("spec.containers[%q].resources.limits", k.Name), Value: "no device"}}}
		return "looks for GPUs, and asks for none", f
	}
	for i, v := range life.Authored(c, k).Env {
		if hides := v.Name == "CUDA_VISIBLE_DEVICES" || v.Name == "NVIDIA_VISIBLE_DEVICES" || v.Name == "HIP_VISIBLE_DEVICES" || v.Name == "ROCR_VISIBLE_DEVICES"; hides && v.ValueFrom == nil && slices.Contains([]string{"", "-1", "none", "void", "NoDevFiles"}, v.Value) {
			return fmt.Sprintf("has its GPUs hidden by its own variable %s", v.Name), check.Finding{
				Owner: check.User, Evidence: []facts.Evidence{{Object: at, Field: fmt.Sprintf("spec.containers[%q].env[%q]", k.Name, v.Name), Value: v.Value}},
				Edits: []edit.Edit{{Side: edit.Workload, Cost: edit.CostWord, Text: "take variable " + v.Name + " away", Ops: []edit.Op{{Op: "remove", Path: k.Path("env", fmt.Sprint(i))}}}},
			}
		}
	}
	if class, user := runtimeClassOfOthers(c); class != "" && c.Pod.Spec.RuntimeClassName == nil {
		return fmt.Sprintf("was given GPUs, and does not see them: it has no RuntimeClass, and pod %s, which uses GPUs, has %s", user, class), check.Finding{
			Owner: check.User, Evidence: []facts.Evidence{{Object: at, Field: "spec.runtimeClassName", Value: "none"}},
			Edits: []edit.Edit{{Side: edit.Workload, Cost: edit.CostWord, Text: fmt.Sprintf("set runtimeClassName to %s, as pod %s has it", class, user), Ops: []edit.Op{{Op: "add", Path: "/spec/runtimeClassName", Value: class}}, Assumes: "that runtime shows a container its GPUs"}},
		}
	}
	return fmt.Sprintf("was given GPUs on node %s, and does not see them", c.Pod.Spec.NodeName), check.Finding{
		Layer: check.L2, Owner: check.Platform,
		Advice: fmt.Sprintf("Have the container toolkit of node %s looked at: its runtime does not put the driver's libraries and devices into containers; or name the RuntimeClass that does.", c.Pod.Spec.NodeName),
	}
}

// runtimeClassOfOthers is a RuntimeClass with which another pod's GPUs work, and that pod: the first by name.
func runtimeClassOfOthers(c *check.Case) (class, user string) {
	for _, p := range c.Pods {
		name := p.Spec.RuntimeClassName
		if name == nil || facts.StateOf(p) != facts.Running || facts.Unsettled(p) || !slices.ContainsFunc(life.ContainersOf(p), func(k life.Container) bool { return life.UsesDevices(k.Container) }) {
			continue
		}
		if user == "" || p.Name < user {
			class, user = *name, p.Name
		}
	}
	return class, user
}

// findsNoName is about a program that looks for a pod of its own work by a name that DNS does not have. A pod has one, HOSTNAME.SUBDOMAIN, if
// it has a subdomain and there is a headless Service of that name that selects it; one that is not ready, only if the Service says so.
func findsNoName(c *check.Case, k *life.Container, line string) (string, check.Finding) {
	for _, name := range nameIn.FindAllString(strings.ToLower(line), -1) {
		host, domain, _ := strings.Cut(name, ".")
		p := peerCalled(c, host)
		if p == nil {
			continue
		}
		service, _, _ := strings.Cut(domain, ".")
		f := check.Finding{Owner: check.User, Evidence: []facts.Evidence{{Object: facts.RefTo(p).In(), Field: "spec.subdomain", Value: cmp.Or(p.Spec.Subdomain, "none")}}}
		switch {
		case p.Spec.Subdomain == "":
			f.Advice = fmt.Sprintf("Set subdomain: %s in the pods' template, and make a headless Service of that name (clusterIP: None, publishNotReadyAddresses: true) that selects the pods.", cmp.Or(service, "NAME"))
			return fmt.Sprintf("looks for pod %s by the name %s, and the pod has no name in DNS: it has no subdomain", p.Name, name), f
		case service != p.Spec.Subdomain:
			f.Advice = fmt.Sprintf("Have the program ask for %s.%s.", host, p.Spec.Subdomain)
			return fmt.Sprintf("looks for pod %s by the name %s, and its name in DNS is %s.%s", p.Name, name, host, p.Spec.Subdomain), f
		case p.Spec.NodeName == "":
			return fmt.Sprintf("looks for pod %s by the name %s, and the pod has no node, and so no name in DNS", p.Name, name), check.Finding{
				Evidence: []facts.Evidence{{Object: facts.RefTo(p).In(), Field: "spec.nodeName", Value: "none"}},
				Advice:   fmt.Sprintf("Ask why pod %s waits: when it runs, this one finds it.", p.Name),
			}
		}
		f.Advice = fmt.Sprintf("See that Service %s is in the namespace, is headless (clusterIP: None), selects the pods, and has publishNotReadyAddresses: true: without it a pod has no name before it is ready.", service)
		return fmt.Sprintf("looks for pod %s by the name %s, which DNS does not have: no headless Service %s gives it to the pod", p.Name, name, service), f
	}
	if b := network.ClosedToDNS(c.Facts, c.Pod); b != nil {
		return "gets no answer from DNS: " + b.Says("DNS"), walls(b)
	}
	if ofNoDNS.MatchString(line) {
		return fmt.Sprintf("gets no answer from DNS on node %s", c.Pod.Spec.NodeName),
			check.Finding{Layer: check.L2, Owner: check.Platform, Advice: "Look at the cluster's DNS (CoreDNS, NodeLocal DNSCache) and at the network of that node."}
	}
	return "", check.Finding{}
}

// peerCalled is a pod of the same work with the host name.
func peerCalled(c *check.Case, host string) *corev1.Pod {
	for _, p := range slices.Concat(c.All, crew(c.Facts, c.Pod)) {
		if cmp.Or(p.Spec.Hostname, p.Name) == host {
			return p
		}
	}
	return nil
}

// pinsNoMemory is about RDMA: what a network card reads and writes is locked in memory, of which a container gets what its runtime's limit
// (memlock) says, or, with the capability IPC_LOCK, all that it has.
func pinsNoMemory(c *check.Case, k *life.Container, _ string) (string, check.Finding) {
	sc := k.SecurityContext
	privileged := sc != nil && sc.Privileged != nil && *sc.Privileged
	if privileged || sc != nil && sc.Capabilities != nil && slices.Contains(sc.Capabilities.Add, "IPC_LOCK") {
		return "cannot lock memory for the network card, though it may (IPC_LOCK)",
			check.Finding{Owner: check.User, Advice: "Raise the memory limit of the container, against which locked memory counts."}
	}
	add := edit.Op{Op: "add", Path: k.Path("securityContext", "capabilities", "add"), Value: []string{"IPC_LOCK"}}
	if authored := life.Authored(c, k).SecurityContext; authored != nil && authored.Capabilities != nil && len(authored.Capabilities.Add) > 0 {
		add.Path, add.Value = add.Path+"/-", "IPC_LOCK"
	}
	return "cannot lock memory for the network card: it lacks the capability IPC_LOCK, and its runtime's limit on locked memory (memlock) is small", check.Finding{
		Owner:    check.User,
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.containers[%q].securityContext.capabilities.add", k.Name), Value: "without IPC_LOCK"}},
		Edits:    []edit.Edit{{Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("give %s the capability IPC_LOCK", k.Noun()), Ops: []edit.Op{add}, Assumes: "the namespace's Pod Security allows it"}},
	}
}

// memoryLimit is the limit on memory that the container runs under, and its field: its own, or, where it has none, the one of the pod as a
// whole.
func memoryLimit(p *corev1.Pod, k *life.Container) (limit resource.Quantity, field string) {
	if own, ok := k.Resources.Limits[corev1.ResourceMemory]; ok || !limitedAsAWhole(p, k) {
		list := "containers"
		if k.Init {
			list = "initContainers"
		}
		return own, fmt.Sprintf("spec.%s[%q].resources.limits.memory", list, k.Name)
	}
	return p.Spec.Resources.Limits[corev1.ResourceMemory], "spec.resources.limits.memory"
}

// limitedAsAWhole says whether the container's only limit on memory is the one that all of the pod's containers share.
func limitedAsAWhole(p *corev1.Pod, k *life.Container) bool {
	if _, own := k.Resources.Limits[corev1.ResourceMemory]; own || p.Spec.Resources == nil {
		return false
	}
	_, ok := p.Spec.Resources.Limits[corev1.ResourceMemory]
	return ok
}

// moreMemory doubles the limit, and the request where it is the same; more than once where the pod itself says that it
// needs more, as those of Berth's own fleet do.
func moreMemory(c *check.Case, k *life.Container, limit resource.Quantity) edit.Edit {
	const annotation = "sim.berth.dev/memory"
	double, assumes := limit.DeepCopy(), "twice the memory is enough"
	double.Add(limit)
	if need, err := resource.ParseQuantity(c.Pod.Annotations[annotation]); err == nil {
		for assumes = ""; double.Cmp(need) < 0; {
			double.Add(double)
		}
	}
	return setMemory(c, k, limit, double, assumes)
}

// setMemory raises the limit, and the request where it is the same.
func setMemory(c *check.Case, k *life.Container, limit, to resource.Quantity, assumes string) edit.Edit {
	noun, path, authored := k.Noun(), k.Path("resources"), life.Authored(c, k).Resources.Requests
	if limitedAsAWhole(c.Pod, k) {
		noun, path, authored = "the pod as a whole", "/spec/resources", nil
		if r := place.Written(c).Spec.Resources; r != nil {
			authored = r.Requests
		}
	}
	e := edit.Edit{
		Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("raise the memory limit of %s from %s to %s", noun, &limit, &to),
		Ops:     []edit.Op{{Op: "replace", Path: path + "/limits/memory", Value: to.String()}},
		Assumes: assumes,
	}
	if request, ok := authored[corev1.ResourceMemory]; ok && request.Cmp(limit) == 0 {
		e.Ops = append(e.Ops, edit.Op{Op: "replace", Path: path + "/requests/memory", Value: to.String()})
	}
	return e
}
