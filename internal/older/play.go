package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

const (
	space   = "research"        // of the work
	account = "berth-scheduler" // of kube/install, and so are the lease, the Service and the APIService
	service = "v1alpha1.answers.berth.dev"
)

// play is a control plane with what is played on it.
type play struct {
	*servers
	steps      int
	said       *os.File // what every command printed
	schedulers []*child
	identity   string // kubeconfig of the schedulers
	served     map[string]bool
}

func newPlay(ctx context.Context, o options) (*play, error) {
	said, err := os.Create(filepath.Join(o.dir, "commands.log"))
	if err != nil {
		return nil, err
	}
	s, err := startServers(ctx, o)
	if err != nil {
		return nil, err
	}
	p := &play{servers: s, said: said, served: map[string]bool{}}
	for _, k := range sometimes {
		if p.served[k.kind], err = p.serves(k.version, k.kind); err != nil {
			p.close()
			return nil, err
		}
	}
	fmt.Printf("%s; not served: %s\n", p.version, strings.Join(p.missing(), ", "))
	return p, nil
}

// sometimes are the kinds that not every version serves, and whether the preflight is to name them.
var sometimes = []struct {
	version, kind string
	preflight     bool
}{
	{"admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", true},
	{"scheduling.k8s.io/v1beta1", "PodGroup", true},
	{"scheduling.k8s.io/v1alpha3", "CompositePodGroup", false},
	{"resource.k8s.io/v1", "DeviceClass", true},
	{"resource.k8s.io/v1", "DeviceTaintRule", false},
}

func (p *play) serves(version, kind string) (bool, error) {
	list, err := p.client.Discovery().ServerResourcesForGroupVersion(version)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }), err
}

func (p *play) missing() (out []string) {
	for _, k := range sometimes {
		if !p.served[k.kind] {
			out = append(out, k.version+" "+k.kind)
		}
	}
	return out
}

// step is something that is to work.
type step struct {
	name string
	do   func(context.Context) error
	last bool // nothing after it makes sense where it fails
}

// all plays every step and returns how many failed.
func (p *play) all(ctx context.Context) (failed int) {
	for _, s := range []step{
		{"the preflight names what is not served, and refuses nothing", p.preflight, false},
		{"install --dry-run writes nothing", p.dryRun, false},
		{"install", p.install, true},
		{"install again changes nothing", p.installAgain, false},
		{"the kinds' rules hold", p.rules, false},
		{"the admission policies hold", p.policies, false},
		{"machines", p.addMachines, true},
		{"two schedulers with the rights of the installed account", p.startSchedulers, true},
		{"a gang is bound whole", func(ctx context.Context) error {
			return errors.Join(p.gang(ctx, "first", 4, 4), p.running(ctx, "first", 4))
		}, true},
		{"a second one waits whole and says why", func(ctx context.Context) error {
			return errors.Join(p.gang(ctx, "second", 4, 4), p.waiting(ctx, "second", 4))
		}, false},
		{"events", p.events, false},
		{"a claim of a device", p.claim, false},
		{"jobs and queue", p.line, false},
		{"why", p.why, false},
		{"check", p.check, false},
		{"doctor, capacity, whatif, drain and adopt", p.reads, false},
		{"evidence", p.evidence, false},
		{"hold and release", p.hold, false},
		{"terms of bound pods are fixed", p.terms, false},
		{"the leader is killed, the first gang ends, the second runs", p.leaderDies, false},
		{"a queue has its usage", p.usage, false},
		{"backup", p.backup, false},
		{"the schedulers complain of nothing", p.logs, false},
		{"uninstall leaves work and queues", p.uninstall, false},
		{"restore", p.restore, false},
	} {
		began := time.Now()
		err := s.do(ctx)
		p.steps++
		if err == nil {
			fmt.Printf("ok    %s (%.1f s)\n", s.name, time.Since(began).Seconds())
			continue
		}
		failed++
		fmt.Printf("FAIL  %s (%.1f s)\n      %s\n", s.name, time.Since(began).Seconds(), strings.ReplaceAll(err.Error(), "\n", "\n      "))
		if s.last {
			break
		}
	}
	return failed
}

// commandLimit bounds one command.
const commandLimit = time.Minute

// berth runs a command as the administrator and returns what it printed. It is an error if it exits with another code, or says that
// it could not see something.
func (p *play) berth(ctx context.Context, code int, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.options.berth, append(args, "--kubeconfig", p.admin)...)
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "BERTH_HOME="+filepath.Join(p.dir, "home"), "KUBECONFIG=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	fmt.Fprintf(p.said, "$ berth %s\n%s%s[%d]\n\n", strings.Join(args, " "), out.Bytes(), errs.Bytes(), cmd.ProcessState.ExitCode())
	if cmd.ProcessState.ExitCode() != code {
		return out.String(), fmt.Errorf("berth %s: %v, want exit code %d: %s%s", strings.Join(args, " "), err, code, tail(errs.String()), tail(out.String()))
	}
	for _, words := range []string{"not seen", "Not seen", "could not be read", "unknown field", "Warning:"} {
		if at := strings.Index(out.String()+errs.String(), words); at >= 0 {
			said := line(out.String()+errs.String(), at)
			if strings.Contains(said, "pods/log") { // there is no kubelet
				continue
			}
			return out.String(), fmt.Errorf("berth %s: %s", strings.Join(args, " "), said)
		}
	}
	return out.String(), nil
}

// tail is the end of a long text.
func tail(text string) string { return text[max(0, len(text)-1500):] }

// line is the line of the text that the place is on.
func line(text string, at int) string {
	from := strings.LastIndexByte(text[:at], '\n') + 1
	to := strings.IndexByte(text[at:], '\n')
	if to < 0 {
		return text[from:]
	}
	return text[from : at+to]
}

// has is an error where the text lacks one of the words.
func has(text string, words ...string) error {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return fmt.Errorf("%q is missing in: %s", w, tail(text))
		}
	}
	return nil
}

func (p *play) preflight(ctx context.Context) error {
	out, err := p.berth(ctx, 0, "install", "--preflight")
	if err != nil {
		return err
	}
	for _, k := range sometimes {
		if !k.preflight {
			continue
		}
		level, found := "warn", false
		if p.served[k.kind] {
			level = "ok"
		}
		for l := range strings.Lines(out) {
			found = found || strings.Contains(l, k.kind) && strings.HasPrefix(l, level+" ") && strings.Contains(l, " gates ")
		}
		if !found {
			return fmt.Errorf("no line %q about %s: %s", level, k.kind, out)
		}
	}
	return has(out, "the API server would take all")
}

const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/berthqueues.berth.dev"

func (p *play) get(ctx context.Context, path string) error {
	return p.client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Error()
}

func (p *play) dryRun(ctx context.Context) error {
	if _, err := p.berth(ctx, 0, "install", "--dry-run"); err != nil {
		return err
	}
	if err := p.get(ctx, definition); !apierrors.IsNotFound(err) {
		return fmt.Errorf("there is a definition after a dry run: %v", err)
	}
	return nil
}

// did counts what became of objects, by kind.
func did(out, word string) map[string]int {
	n := map[string]int{}
	for l := range strings.Lines(out) {
		if fields := strings.Fields(l); strings.Contains(l, " "+word) && len(fields) > 2 && fields[0] != "warn" {
			n[fields[0]]++
		}
	}
	return n
}

func (p *play) install(ctx context.Context) error {
	out, err := p.berth(ctx, 0, "install", "--replicas", "0") // its pods would not run here: two processes stand in for them
	if err != nil {
		return err
	}
	for kind := range did(out, "skipped") {
		if base := strings.TrimSuffix(kind, "Binding"); p.served[base] || base != "MutatingAdmissionPolicy" {
			return fmt.Errorf("%s was left out", kind)
		}
	}
	if n := did(out, "applied")["MutatingAdmissionPolicy"]; p.served["MutatingAdmissionPolicy"] != (n > 0) {
		return fmt.Errorf("%d mutating policies", n)
	}
	return nil
}

func (p *play) installAgain(ctx context.Context) error {
	out, err := p.berth(ctx, 0, "install", "--replicas", "0")
	if err != nil {
		return err
	}
	if n := did(out, "applied"); len(n) > 0 {
		return fmt.Errorf("written again: %v", n)
	}
	return nil
}

// write sends an object to the API server as YAML.
func (p *play) write(ctx context.Context, path, text string) error {
	return p.client.Discovery().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/yaml").SetHeader("Accept", runtime.ContentTypeJSON).Body([]byte(text)).Do(ctx).Error()
}

// rules writes a queue that is right, and those that the definition's CEL refuses.
func (p *play) rules(ctx context.Context) error {
	const at = "/apis/berth.dev/v1alpha1/berthqueues"
	queue := func(name, spec string) string {
		return "apiVersion: berth.dev/v1alpha1\nkind: BerthQueue\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	}
	if err := p.write(ctx, at, queue("team", `{resources: [{name: nvidia.com/gpu, quota: 16}], budgets: [{resource: nvidia.com/gpu, hours: 1000, period: 720h}]}`)); err != nil {
		return err
	}
	for _, spec := range []string{`{resources: [{name: nvidia.com/gpu, quota: -1}]}`, `{budgets: [{resource: nvidia.com/gpu, hours: 1, period: 1s}]}`, `{quotas: 1}`} {
		r := p.client.Discovery().RESTClient().Post().AbsPath(at).Param("fieldValidation", "Strict").SetHeader("Content-Type", "application/yaml").Body([]byte(queue("bad", spec))).Do(ctx)
		if err := r.Error(); !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			return fmt.Errorf("%s: %v, want a refusal", spec, err)
		}
	}
	return nil
}

// policies asks with requests that are not carried out; the API server takes policies into use some time after they are created.
func (p *play) policies(ctx context.Context) error {
	if _, err := p.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	// A controller that does not run here makes the account that pods run as.
	if _, err := p.client.CoreV1().ServiceAccounts(space).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"annotations":{"berth.dev/queues":"mine"}}}`)
	err := p.until(ctx, "policy berth-namespace-queues", time.Minute, func() error {
		_, err := p.client.CoreV1().Namespaces().Patch(ctx, space, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return forbidden(err, "only Berth's scheduler writes")
	})
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}}}
	return p.until(ctx, "berth.dev/user of a pod", time.Minute, func() error {
		made, err := p.client.CoreV1().Pods(space).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if got := made.Annotations[v1alpha1.KeyUser]; p.served["MutatingAdmissionPolicy"] != (got == "admin") {
			return fmt.Errorf("berth.dev/user is %q", got)
		}
		return nil
	})
}

// startSchedulers runs two, as the account that was installed, and has the API server hand questions on to whoever leads.
func (p *play) startSchedulers(ctx context.Context) error {
	token, err := p.client.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 3600))}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config := p.client.Discovery().RESTClient().Get().URL()
	p.identity = filepath.Join(p.dir, "scheduler.kubeconfig")
	if err := p.writeKubeconfig(p.identity, config.Scheme+"://"+config.Host, token.Status.Token); err != nil {
		return err
	}
	if err := p.answerLocally(ctx); err != nil {
		return err
	}
	for range 2 {
		if err := p.addScheduler(ctx); err != nil {
			return err
		}
	}
	return nil
}

// answerLocally points the APIService at this machine, by a name for it: an EndpointSlice may not hold a loopback address.
func (p *play) answerLocally(ctx context.Context) error {
	if _, err := p.client.CoreV1().Services(metav1.NamespaceSystem).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: account + "-local"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	patch := []byte(`{"spec":{"service":{"name":"` + account + `-local"}}}`)
	return p.client.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath("/apis/apiregistration.k8s.io/v1/apiservices", service).Body(patch).Do(ctx).Error()
}

// addScheduler starts one and waits until it is ready: it leads, or stands by with the cluster in memory.
func (p *play) addScheduler(ctx context.Context) error {
	at, err := freeAddress()
	if err != nil {
		return err
	}
	c, err := p.start(fmt.Sprintf("scheduler-%d", len(p.schedulers)+1), p.options.berth, "scheduler", "--kubeconfig", p.identity, "--listen", at, "--record", filepath.Join(p.dir, fmt.Sprintf("decisions-%d", len(p.schedulers)+1)))
	if err != nil {
		return err
	}
	p.schedulers = append(p.schedulers, c)
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // of its own making
	return p.until(ctx, c.name, time.Minute, func() error {
		answer, err := client.Get("https://" + at + "/readyz")
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
}

func (p *play) events(ctx context.Context) error {
	return p.until(ctx, "events", time.Minute, func() error {
		list, err := p.client.EventsV1().Events(space).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; strings.HasPrefix(e.ReportingController, "berth") && e.Reason == "Scheduled" {
				return nil
			}
		}
		return fmt.Errorf("none of %d is of a pod that Berth scheduled", len(list.Items))
	})
}

// claim has a pod get a device, where the API server serves claims in the version that is read.
func (p *play) claim(ctx context.Context) error {
	if !p.served["DeviceClass"] {
		return nil
	}
	const api = "/apis/resource.k8s.io/v1"
	for _, o := range []struct{ path, text string }{
		{api + "/deviceclasses", "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: link}\nspec:\n  selectors: [{cel: {expression: 'device.driver == \"link.example.com\"'}}]\n"},
		{api + "/resourceslices", "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: links}\nspec:\n  driver: link.example.com\n  nodeName: machine-3\n  pool: {name: machine-3, generation: 1, resourceSliceCount: 1}\n  devices: [{name: link-0}]\n"},
		{api + "/namespaces/" + space + "/resourceclaims", "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: link}\nspec:\n  devices:\n    requests: [{name: link, exactly: {deviceClassName: link}}]\n"},
		{"/api/v1/namespaces/" + space + "/pods", "apiVersion: v1\nkind: Pod\nmetadata: {name: linked, labels: {job-name: linked}}\nspec:\n  schedulerName: berth\n  resourceClaims: [{name: link, resourceClaimName: link}]\n  containers: [{name: main, image: none, resources: {claims: [{name: link}]}}]\n"},
	} {
		if err := p.write(ctx, o.path, o.text); err != nil {
			return fmt.Errorf("%s: %w", o.path, err)
		}
	}
	if err := p.running(ctx, "linked", 1); err != nil {
		return err
	}
	claim, err := p.client.ResourceV1().ResourceClaims(space).Get(ctx, "link", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if a := claim.Status.Allocation; a == nil || len(a.Devices.Results) != 1 || a.Devices.Results[0].Device != "link-0" || len(claim.Status.ReservedFor) != 1 {
		return fmt.Errorf("the claim's status is %+v", claim.Status)
	}
	return nil
}

func (p *play) line(ctx context.Context) error {
	// The API server takes some seconds to find out that the answers have come.
	if err := p.until(ctx, "answers through the API server", time.Minute, func() error {
		out, err := p.berth(ctx, 0, "jobs", "-n", space)
		return errors.Join(err, has(out, "job/first", "running", "4/4", "job/second", "waiting", "0/4"))
	}); err != nil {
		return err
	}
	out, err := p.berth(ctx, 1, "jobs", "job/second", "-n", space)
	if err := errors.Join(err, has(out, "cluster-full", "job/first")); err != nil {
		return err
	}
	out, err = p.berth(ctx, 0, "queue")
	return errors.Join(err, has(out, "team", "default"))
}

func (p *play) why(ctx context.Context) error {
	out, err := p.berth(ctx, 1, "why", "job/second", "-n", space)
	if err := errors.Join(err, has(out, "cluster-full", "8 are free")); err != nil {
		return err
	}
	_, err = p.berth(ctx, 0, "why", "job/first", "-n", space)
	return err
}

func (p *play) check(ctx context.Context) error {
	file := filepath.Join(p.dir, "submit.yaml")
	text := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: third, annotations: {berth.dev/gang: third}}\nspec:\n  completions: 2\n  parallelism: 2\n  template:\n    spec:\n" +
		"      schedulerName: berth\n      restartPolicy: Never\n      containers: [{name: train, image: registry.example/train:1, resources: {limits: {nvidia.com/gpu: GPUS}}}]\n"
	for _, c := range []struct {
		gpus string
		code int
	}{{"2", 0}, {"64", 1}} {
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "GPUS", c.gpus)), 0o644); err != nil {
			return err
		}
		if _, err := p.berth(ctx, c.code, "check", "-f", file, "-n", space); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) reads(ctx context.Context) error {
	_, doctor := p.berth(ctx, 0, "doctor")
	out, capacity := p.berth(ctx, 0, "capacity")
	if capacity == nil {
		capacity = has(out, strconv.Itoa((machines-1)*gpus))
	}
	_, whatif := p.berth(ctx, 0, "whatif", "--drain", machineName(0))
	_, drain := p.berth(ctx, 0, "drain", machineName(0), "--window", "6h", "--dry-run")
	_, adopt := p.berth(ctx, 0, "adopt", "--from", "kueue")
	return errors.Join(doctor, capacity, whatif, drain, adopt)
}

func (p *play) evidence(ctx context.Context) error {
	file := filepath.Join(p.dir, "bundle.tar.zst")
	if _, err := p.berth(ctx, 0, "evidence", "-o", file); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, p.options.berth, "why", "job/second", "-n", space, "--from", file)
	out, _ := cmd.CombinedOutput()
	return has(string(out), "cluster-full", "8 are free")
}

func (p *play) hold(ctx context.Context) error {
	if err := errors.Join(p.gang(ctx, "third", 2, 1), p.running(ctx, "third", 2)); err != nil {
		return err
	}
	if _, err := p.berth(ctx, 0, "hold", "job/second", "-n", space); err != nil {
		return err
	}
	if _, err := p.berth(ctx, 0, "release", "job/second", "-n", space); err != nil {
		return err
	}
	return errors.Join(p.client.BatchV1().Jobs(space).Delete(ctx, "third", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}),
		p.client.CoreV1().Pods(space).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "job-name=third"}))
}

func (p *play) terms(ctx context.Context) error {
	list, err := p.members(ctx, "first")
	if err != nil {
		return err
	}
	_, err = p.client.CoreV1().Pods(space).Patch(ctx, list[0].Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"berth.dev/queue":"team"}}}`), metav1.PatchOptions{})
	return forbidden(err, "is fixed once the pod has entered its queue")
}

// leaderDies kills the process that holds the lease; the other leads, and starts what has room by then.
func (p *play) leaderDies(ctx context.Context) error {
	lease, err := p.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, account, metav1.GetOptions{})
	if err != nil {
		return err
	}
	killed := -1
	for i, c := range p.schedulers {
		if lease.Spec.HolderIdentity != nil && slices.Contains(strings.Split(*lease.Spec.HolderIdentity, "_"), strconv.Itoa(c.cmd.Process.Pid)) {
			c.cmd.Process.Kill()
			killed = i
		}
	}
	if killed < 0 {
		return fmt.Errorf("nobody here holds the lease: %+v", lease.Spec)
	}
	return errors.Join(p.finish(ctx, "first"), p.running(ctx, "second", 4))
}

// usage has a workload in a queue with a quota, and waits until the queue's status has it.
func (p *play) usage(ctx context.Context) error {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: charged, labels: {job-name: charged}, annotations: {berth.dev/queue: team}}\nspec:\n  schedulerName: berth\n  containers: [{name: main, image: none, resources: {limits: {nvidia.com/gpu: 1}}}]\n"
	if err := errors.Join(p.write(ctx, "/api/v1/namespaces/"+space+"/pods", pod), p.running(ctx, "charged", 1)); err != nil {
		return err
	}
	return p.until(ctx, "the queue's status", time.Minute, func() error {
		text, err := p.client.Discovery().RESTClient().Get().AbsPath("/apis/berth.dev/v1alpha1/berthqueues/team").DoRaw(ctx)
		return errors.Join(err, has(string(text), `"used":"1"`))
	})
}

func (p *play) backup(ctx context.Context) error {
	_, err := p.berth(ctx, 0, "backup", "-o", filepath.Join(p.dir, "backup.yaml"))
	return err
}

// restore is refused while a scheduler leads.
func (p *play) restore(ctx context.Context) error {
	_, err := p.berth(ctx, 0, "restore", filepath.Join(p.dir, "backup.yaml"))
	return err
}

// logs is an error for every warning of a scheduler, and where it does not say once what is not served.
func (p *play) logs(context.Context) error {
	var wrong []error
	for i, c := range p.schedulers {
		text, err := os.ReadFile(filepath.Join(p.dir, c.name+".log"))
		if err != nil {
			return err
		}
		for l := range strings.Lines(string(text)) {
			if (strings.Contains(l, "WARN") || strings.Contains(l, "ERROR") || strings.Contains(l, "panic")) && !slices.ContainsFunc(wrong, func(e error) bool { return strings.HasSuffix(e.Error(), strings.TrimSpace(l)) }) {
				wrong = append(wrong, fmt.Errorf("scheduler %d: %s", i+1, strings.TrimSpace(l)))
			}
		}
		for _, k := range sometimes {
			if n := strings.Count(string(text), k.version+" "+k.kind); k.kind != "MutatingAdmissionPolicy" && !p.served[k.kind] && n != 1 {
				wrong = append(wrong, fmt.Errorf("scheduler %d says %d times that %s %s is not served", i+1, n, k.version, k.kind))
			}
		}
	}
	return errors.Join(wrong...)
}

// uninstall takes Berth away: its kinds with their queues stay, and pods keep their nodes.
func (p *play) uninstall(ctx context.Context) error {
	for _, c := range p.schedulers {
		c.end()
	}
	if _, err := p.berth(ctx, 0, "uninstall"); err != nil {
		return err
	}
	if err := p.running(ctx, "second", 4); err != nil {
		return err
	}
	if err := errors.Join(p.get(ctx, definition), p.get(ctx, "/apis/berth.dev/v1alpha1/berthqueues/team")); err != nil {
		return err
	}
	for _, path := range []string{
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/" + account, "/apis/apiregistration.k8s.io/v1/apiservices/" + service, "/apis/apps/v1/namespaces/kube-system/deployments/" + account,
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/berth-terms", "/api/v1/namespaces/kube-system/serviceaccounts/" + account,
	} {
		if err := p.get(ctx, path); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is still there: %v", path, err)
		}
	}
	// An API that nobody answers would hold up the deletion of namespaces.
	return p.until(ctx, "complete discovery", time.Minute, func() error {
		_, _, err := p.client.Discovery().ServerGroupsAndResources()
		return err
	})
}
