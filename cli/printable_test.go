package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostile are texts with which somebody else's screen is written to.
var hostile = map[string]string{
	"colour":       "\x1b[31mred\x1b[0m",
	"clear":        "\x1b[2J\x1b[H",
	"title":        "\x1b]0;owned\x07",
	"link":         "\x1b]8;;http://evil.example\x1b\\\\text\x1b]8;;\x1b\\\\",
	"clipboard":    "\x1b]52;c;cm0gLXJmIC8=\x07",
	"C1 CSI":       "\u009b31mred",
	"C1 OSC":       "\u009d0;owned\u009c",
	"C1 as bytes":  "\x9b31mred",
	"backspace":    "good\b\b\b\bevil",
	"return":       "good\revil",
	"bidi":         "a\u202etxt.exe\u2066b\u2069",
	"bidi mark":    "a\u200fb\u061cc",
	"delete":       "a\x7fb",
	"null":         "a\x00b",
	"bell":         "a\ab",
	"line":         "a\u2028b\u2029c\u0085d\vd\fe",
	"tags":         "a\U000e0041b",
	"a mark of us": "\x1bABCDEFGHIJKLMNOPQRSTUVWXYZK",
}

func TestNothingActsOnATerminal(t *testing.T) {
	for name, text := range hostile {
		for cut := range len(text) + 1 { // wherever a write ends
			var out bytes.Buffer
			p := &printable{w: &out}
			for _, part := range []string{text[:cut], text[cut:]} {
				if n, err := p.Write([]byte(part)); n != len(part) || err != nil {
					t.Fatalf("%s: %d, %v", name, n, err)
				}
			}
			for _, r := range out.String() {
				if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar {
					t.Errorf("%s, cut at %d: %q", name, cut, out.String())
					break
				}
			}
		}
	}
	for _, s := range []string{"plain\ttext\n", "größer als 日本語 🚀\n", ""} {
		if got := string(harmless([]byte(s))); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := string(harmless([]byte("a\r\nb" + red + "c" + unstyled + eraseLine))); got != "a\nb\x1b[1;31mc\x1b[0m\r\x1b[K" {
		t.Errorf("%q", got)
	}
	if got := cell("a\nb\tc\u2028d"); got != "a b c d" {
		t.Errorf("%q", got)
	}
}

// Every read command prints a hostile object, from a cluster and from a bundle, without a character that a terminal acts
// on, in as many lines as one of no harm; and JSON stays JSON.
func TestHostileObjectsOnEveryScreen(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	var all strings.Builder
	for _, text := range hostile {
		all.WriteString(text)
	}
	cluster := smallCluster()
	pods := cluster["/api/v1/pods?limit=500"].(corev1.PodList)
	pods.Items[1].Annotations = map[string]string{"berth.dev/queue": "q" + all.String()}
	pods.Items[1].Status.Message = all.String()
	pods.Items[1].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: all.String()}}
	pods.Items[1].Spec.SchedulerName = "s" + all.String()
	nodes := cluster["/api/v1/nodes?limit=500"].(corev1.NodeList)
	nodes.Items[0].Status.Conditions[0].Message = all.String()
	nodes.Items[0].Spec.Taints = []corev1.Taint{{Key: "k" + all.String(), Value: all.String(), Effect: corev1.TaintEffectNoSchedule}}
	job := waitingJob()
	job.Queue = "q" + all.String()
	cluster[answers+"/namespaces/a/workloads"] = map[string]any{"items": []any{job}}
	cluster[answers+"/workloads"] = map[string]any{"items": []any{job}}
	cluster[answers+"/queues"] = map[string]any{"items": []any{map[string]any{"metadata": metav1.ObjectMeta{Name: "q" + all.String()}}}}
	kubeconfig := apiServer(t, cluster)
	bundle := bundleOf(t, kubeconfig)
	for _, args := range []string{"why -A", "why llm-second", "why llm-second -o json", "why -A -o json", "why -A -o yaml", "jobs", "jobs -A", "jobs -A -o json", "queue", "queue -o json", "evidence show " + bundle, "why no" + "\x1b[31m"} {
		for _, source := range []string{"--kubeconfig " + kubeconfig, "--from " + bundle} {
			if strings.HasPrefix(args, "evidence") {
				source = ""
			}
			_, stdout, stderr := run(t, strings.Fields(args+" "+source)...)
			for _, r := range stdout + stderr {
				if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
					t.Errorf("berth %s %s prints %U: %q", args, source, r, stdout+stderr)
					break
				}
			}
			if strings.Contains(args, "json") && stdout != "" && !json.Valid([]byte(stdout)) {
				t.Errorf("berth %s %s: %s is not JSON", args, source, stdout)
			}
		}
	}
}
