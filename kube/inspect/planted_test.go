package inspect

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	neturl "net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/diagnose/facts"
)

var plantSeed = flag.Uint64("plant", 0, "draws the secrets that are planted; 0: by the clock")

// Planted secrets are carrier x wording x look: where a text stands, how it speaks of the secret, and what the secret
// looks like. A wording, a look or a name that is marked held was not looked at while the detectors were written: what
// survives of them says how well these do on shapes that nobody here has thought of.

type look struct {
	name string
	held bool
	// plain looks are words, which nothing but a name beside them gives away.
	plain bool
	draw  func(*rand.Rand) string
}

func of(alphabet string, n int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(b)
	}
}

func prefixed(prefix string, rest func(*rand.Rand) string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return prefix + rest(r) }
}

const (
	small    = "abcdefghijklmnopqrstuvwxyz"
	numerals = "0123456789"
	alnum    = small + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + numerals
)

var looks = []look{
	{name: "base62", draw: of(alnum, 24)},
	{name: "hex", draw: of("0123456789abcdef", 32)},
	{name: "short", draw: func(r *rand.Rand) string {
		return of(alnum, 5)(r) + of(numerals, 1)(r) + of(small, 1)(r) + of(numerals, 1)(r) + of(alnum, 3)(r)
	}},
	{name: "symbols", draw: func(r *rand.Rand) string {
		return of(alnum, 6)(r) + "7k@" + of(alnum, 4)(r) + ",#" + of(alnum, 5)(r) + "!"
	}},
	{name: "words", plain: true, draw: func(r *rand.Rand) string {
		w := strings.Fields("violet otter marble cactus lantern walrus pepper thistle magnet willow saddle kettle parrot velvet")
		return w[r.IntN(len(w))] + w[r.IntN(len(w))] + w[r.IntN(len(w))]
	}},
	{name: "wordnumber", draw: func(r *rand.Rand) string { return "hunter" + of(numerals, 3)(r) + of(small, 2)(r) + of(numerals, 2)(r) }},
	{name: "stripe", draw: prefixed("sk_live_", of(alnum, 24))},
	{name: "npm", draw: prefixed("npm_", of(alnum, 36))},
	{name: "vault", draw: prefixed("hvs.", of(alnum, 24))},
	{name: "docker", draw: prefixed("dckr_pat_", of(alnum, 27))},
	{name: "google", draw: prefixed("ya29.", of(alnum+"-_", 40))},
	{name: "sendgrid", draw: func(r *rand.Rand) string { return "SG." + of(alnum, 22)(r) + "." + of(alnum, 43)(r) }},
	{name: "age", draw: prefixed("AGE-SECRET-KEY-1", of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58))},
	{name: "base64", draw: func(r *rand.Rand) string { return base64.StdEncoding.EncodeToString([]byte(of(alnum, 25)(r))) }},
	{name: "jwt", draw: func(r *rand.Rand) string {
		return "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"`+of(alnum, 9)(r)+`"}`)) + "." + of(alnum, 43)(r)
	}},
	{name: "dashed", held: true, draw: func(r *rand.Rand) string {
		return of(alnum, 5)(r) + "-" + of(alnum, 5)(r) + "-" + of(alnum, 5)(r) + "-" + of(alnum, 5)(r)
	}},
	{name: "seed", held: true, draw: of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)},
	{name: "upper", held: true, draw: of("ABCDEFGHIJKLMNOPQRSTUVWXYZ"+numerals, 20)},
	{name: "printable", held: true, draw: func(r *rand.Rand) string {
		return of(alnum, 3)(r) + "$" + of(alnum, 6)(r) + "%^" + of(alnum, 4)(r) + "*" + of(numerals, 2)(r)
	}},
	{name: "dotted", held: true, draw: func(r *rand.Rand) string { return of(alnum, 8)(r) + "." + of(alnum, 12)(r) + "." + of(alnum, 6)(r) }},
	{name: "small", held: true, draw: of(small, 20)},
	{name: "tailscale", held: true, draw: prefixed("tskey-auth-", of(alnum, 20))},
}

// names of secrets; those after the bar are held.
var secretNames = strings.Fields(`PGPASSWORD dbpassword secretkey restuserkey accountkey API_KEY_1 GITHUB_TOKEN_RO TOKENS MASTER_KEY_B64 client-key-data DB_PASS password api-token MYSQL_ROOT_PASSWORD clientSecret aws_secret_access_key
	| SMTP_PW VAULT_UNSEAL_KEYS signingSecret jdbcPass apiKeySecondary TELEGRAM_BOT_TOKEN stripe_restricted_key sasToken kdbx_password userPwd authToken2 refresh_token_old
	clave cle_api mdp haslo wachtwoord sifre parola_chiave zugangsschluessel lösenord contraseña пароль 密码 パスワード 비밀번호`)

type wording struct {
	name string
	held bool
	// anything says that there is no name beside the secret, so that it has to look like one.
	anything bool
	write    func(name, secret string) string
}

func quote(s string) string { b, _ := json.Marshal(s); return string(b) }

func escapeAll(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

var wordings = []wording{
	{name: "equals", write: func(n, s string) string { return n + "=" + s }},
	{name: "alone", anything: true, write: func(_, s string) string { return s }},
	{name: "in a sentence", anything: true, write: func(_, s string) string { return "could not use " + s + " to connect" }},
	{name: "colon", write: func(n, s string) string { return n + ": " + s }},
	{name: "json", write: func(n, s string) string { return `{"host":"db","` + n + `":` + quote(s) + `}` }},
	{name: "json in json", write: func(n, s string) string { return `{"config":` + quote(`{"a":{"`+n+`":`+quote(s)+`}}`) + `}` }},
	{name: "json in log", write: func(n, s string) string { return `INFO loaded {"` + n + `": ` + quote(s) + `, "port": 5432} ok` }},
	{name: "yaml", write: func(n, s string) string { return "db:\n  host: h\n  " + n + ": " + s + "\n  port: 1\n" }},
	{name: "yaml quoted", write: func(n, s string) string { return "a: b\n" + n + ": '" + s + "'\n" }},
	{name: "yaml env", write: func(n, s string) string { return "env:\n- name: " + n + "\n  value: " + s + "\n" }},
	{name: "value first", write: func(n, s string) string { return `[{"value":` + quote(s) + `,"name":"` + n + `"}]` }},
	{name: "export", write: func(n, s string) string { return "export " + strings.ReplaceAll(n, "-", "_") + "='" + s + "' && run" }},
	{name: "flag", write: func(n, s string) string { return "run --" + strings.ToLower(n) + " " + s + " --port 1" }},
	{name: "flag equals", write: func(n, s string) string { return "run --" + strings.ToLower(n) + "=ab," + s }},
	{name: "flag quoted", write: func(n, s string) string { return `run --` + strings.ToLower(n) + ` "two words ` + s + `"` }},
	{name: "curl user", write: func(_, s string) string { return "curl -u admin:" + s + " https://example.com" }},
	{name: "mysql", write: func(_, s string) string { return "mysql -uroot -p" + s + " -h db" }},
	{name: "sshpass", write: func(_, s string) string { return "sshpass -p " + s + " ssh h" }},
	{name: "redis", write: func(_, s string) string { return "redis-cli -h r -a " + s + " ping" }},
	{name: "url", write: func(_, s string) string { return "postgres://user:" + neturl.QueryEscape(s) + "@db:5432/x" }},
	{name: "url raw", write: func(_, s string) string { return "postgres://user:pa/" + s + "@db/x" }},
	{name: "url two", write: func(_, s string) string { return "amqp://u:p@" + s + "@h:1" }},
	{name: "slack", write: func(_, s string) string {
		return "https://hooks.slack.com/services/T0AB12CD3/B0AB12CD3/" + neturl.PathEscape(s)
	}},
	{name: "query", write: func(_, s string) string {
		return "https://x.blob.core.windows.net/c?sv=2024&sig=" + neturl.QueryEscape(s) + "&se=1"
	}},
	{name: "header", write: func(_, s string) string { return "Authorization: Token " + s }},
	{name: "bearer", write: func(_, s string) string { return `curl -H "Authorization: Bearer ` + s + `" https://h` }},
	{name: "docker auth", write: func(_, s string) string {
		return `{"auths":{"r.example":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("u:"+s)) + `"}}}`
	}},
	{name: "connection string", write: func(_, s string) string { return "Server=db;User Id=sa;Password=" + s + ";Encrypt=true" }},
	{name: "xml", write: func(n, s string) string { return "<c><" + n + ">" + s + "</" + n + "></c>" }},
	{name: "base64 of", write: func(n, s string) string { return base64.StdEncoding.EncodeToString([]byte(n + "=" + s)) }},
	{name: "pem", write: func(_, s string) string {
		return "-----BEGIN RSA PRIVATE KEY-----\nMIIE" + s + "\n" + s + "==\n-----END RSA PRIVATE KEY-----"
	}},
	{name: "pem on a line", write: func(_, s string) string {
		return `-----BEGIN PRIVATE KEY-----\nMIIE` + s + `\n-----END PRIVATE KEY-----\n`
	}},
	{name: "pgp", write: func(_, s string) string {
		return "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n" + s + "\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----"
	}},
	{name: "password is", write: func(_, s string) string { return "the password is " + s }},
	{name: "python dict", write: func(n, s string) string { return "config {'host': 'h', '" + n + "': '" + s + "'}" }},

	{name: "toml", held: true, write: func(n, s string) string { return "[db]\n" + n + " = \"" + s + "\"\n" }},
	{name: "ini", held: true, write: func(n, s string) string { return "[db]\nhost=h\n" + n + " = " + s + "\n" }},
	{name: "properties", held: true, write: func(n, s string) string { return "spring.datasource." + n + "=" + s + "\nspring.x=1" }},
	{name: "hcl", held: true, write: func(n, s string) string { return `provider "x" { ` + n + ` = "` + s + `" }` }},
	{name: "hcl variable", held: true, write: func(n, s string) string { return "variable \"" + n + "\" {\n  default = \"" + s + "\"\n}" }},
	{name: "powershell", held: true, write: func(n, s string) string { return "$env:" + strings.ReplaceAll(n, "-", "_") + ` = "` + s + `"` }},
	{name: "secure string", held: true, write: func(_, s string) string { return `-Password (ConvertTo-SecureString "` + s + `" -AsPlainText)` }},
	{name: "go value", held: true, write: func(n, s string) string {
		return "{Host:h Port:1 " + strings.ReplaceAll(n, "-", "") + ":" + s + " TLS:false}"
	}},
	{name: "go env", held: true, write: func(n, s string) string { return "{Name:" + n + " Value:" + s + " ValueFrom:nil}" }},
	{name: "xml attribute", held: true, write: func(n, s string) string { return `<property name="` + n + `" value="` + s + `"/>` }},
	{name: "xml entry", held: true, write: func(n, s string) string { return `<` + n + ` type="plain">` + s + `</` + n + `>` }},
	{name: "percent", held: true, write: func(n, s string) string { return "data=" + neturl.QueryEscape(n+"="+s+"&x=1") }},
	{name: "unicode", held: true, write: func(n, s string) string { return `{"` + n + `":"` + escapeAll(s) + `"}` }},
	{name: "html", held: true, write: func(n, s string) string { return n + "=&quot;" + s + "&quot;" }},
	{name: "netrc", held: true, write: func(_, s string) string { return "machine h login u password " + s }},
	{name: "pgpass", held: true, write: func(_, s string) string { return "db.example:5432:app:user:" + s }},
	{name: "htpasswd", held: true, write: func(_, s string) string { return "admin:$apr1$" + s[:4] + "$" + s }},
	{name: "cookie", held: true, write: func(_, s string) string { return "Set-Cookie: session=" + s + "; Path=/; HttpOnly" }},
	{name: "block scalar", held: true, write: func(n, s string) string { return n + ": |\n  " + s + "\nnext: 1\n" }},
	{name: "yaml list", held: true, write: func(n, s string) string { return n + ":\n- " + s + "\n- other\nport: 1\n" }},
	{name: "discord", held: true, write: func(_, s string) string {
		return "https://discord.com/api/webhooks/123456789012345678/" + neturl.PathEscape(s)
	}},
	{name: "aws signature", held: true, write: func(_, s string) string {
		return "https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=" + neturl.QueryEscape(s)
	}},
	{name: "basic", held: true, write: func(_, s string) string {
		return "authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+s))
	}},
	{name: "kubeconfig", held: true, write: func(_, s string) string {
		return "users:\n- name: a\n  user:\n    client-key-data: " + base64.StdEncoding.EncodeToString([]byte(s)) + "\n    token: " + s + "\n"
	}},
	{name: "changed to", held: true, write: func(_, s string) string { return "api key was changed to " + s }},
	{name: "tuple", held: true, write: func(n, s string) string { return `("` + n + `", "` + s + `")` }},
	{name: "otpauth", held: true, write: func(_, s string) string { return "otpauth://totp/x?secret=" + neturl.QueryEscape(s) + "&issuer=y" }},
	{name: "ldap", held: true, write: func(_, s string) string { return "ldapsearch -D cn=admin -w " + s + " -b dc=x" }},
	{name: "hash rocket", held: true, write: func(n, s string) string { return ":" + n + " => '" + s + "'," }},
	{name: "csv", held: true, write: func(n, s string) string { return "name,value\n" + n + "," + s + "\n" }},
	{name: "dsn", held: true, write: func(_, s string) string { return "host=h user=u password='" + s + "' dbname=d" }},
	{name: "full width", held: true, write: func(n, s string) string { return n + "：" + s }},
	{name: "csv rows", held: true, write: func(_, s string) string {
		return "user,password,host\nbob," + strings.ReplaceAll(s, ",", ".") + ",db-1\n"
	}},
	{name: "table", held: true, write: func(_, s string) string { return "| user | password |\n|---|---|\n| bob | " + s + " |\n" }},
	{name: "aligned", held: true, write: func(_, s string) string { return "NAME   TOKEN   AGE\nbob    " + s + "    5d\n" }},
	{name: "prompt", held: true, write: func(_, s string) string { return "Password:\n" + s + "\nwelcome" }},
	{name: "whose", held: true, write: func(_, s string) string { return "new password for user bob: " + s }},
	{name: "is the password", held: true, write: func(_, s string) string { return "write down that " + s + " is the new password" }},
	{name: "any program", held: true, write: func(_, s string) string { return "mytool login -u bob -p " + s }},
	{name: "path query", held: true, write: func(_, s string) string { return "GET /callback?code=" + neturl.QueryEscape(s) + "&state=1 200" }},
	{name: "literal", held: true, write: func(_, s string) string { return "kubectl create secret generic x --from-literal=one=" + s }},
	{name: "digest", held: true, write: func(_, s string) string { return `Authorization: Digest username="bob", response="` + s + `"` }},
	{name: "logged in", held: true, write: func(_, s string) string { return "login bob:" + s }},
	{name: "oracle", held: true, write: func(_, s string) string { return "sqlldr user=bob/" + neturl.QueryEscape(s) + "@ORCL" }},
	{name: "json number keys", held: true, write: func(n, s string) string { return `{"items":{"0":{"key":"` + n + `","val":` + quote(s) + `}}}` }},
}

// carrier puts a text somewhere.
type carrier struct {
	name string
	put  func(f *facts.Facts, answers map[string]json.RawMessage, i int, name, text string)
}

func podFor(i int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("pod-%d", i)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:1"}}}}
}

func pods(set func(p *corev1.Pod, name, text string)) func(*facts.Facts, map[string]json.RawMessage, int, string, string) {
	return func(f *facts.Facts, _ map[string]json.RawMessage, i int, name, text string) {
		p := podFor(i)
		set(p, name, text)
		f.Pods = append(f.Pods, p)
	}
}

func foreigns(kind string, set func(spec map[string]any, name, text string)) func(*facts.Facts, map[string]json.RawMessage, int, string, string) {
	return func(f *facts.Facts, _ map[string]json.RawMessage, i int, name, text string) {
		for _, k := range facts.Kinds {
			if k.Foreign && k.Kind == kind {
				u := k.New().(*unstructured.Unstructured)
				u.SetName(fmt.Sprintf("one-%d", i))
				u.SetNamespace("team-a")
				spec := map[string]any{}
				set(spec, name, text)
				u.Object["spec"] = spec
				k.Add(&f.Objects, u)
				return
			}
		}
	}
}

var carriers = []carrier{
	{"env", pods(func(p *corev1.Pod, n, t string) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "SETTINGS", Value: t}}
	})},
	{"args", pods(func(p *corev1.Pod, n, t string) {
		p.Spec.Containers[0].Args = append([]string{"run"}, strings.Fields(t)...)
	})},
	{"command", pods(func(p *corev1.Pod, n, t string) { p.Spec.Containers[0].Command = []string{"sh", "-c", t} })},
	{"launcher", pods(func(p *corev1.Pod, n, t string) {
		p.Spec.Containers[0].Command = []string{"bash", "-c", t + " ; torchrun --nproc_per_node=8 train.py"}
	})},
	{"probe", pods(func(p *corev1.Pod, n, t string) {
		p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", t}}}}
	})},
	{"annotation", pods(func(p *corev1.Pod, n, t string) { p.Annotations = map[string]string{"example.com/config": t} })},
	{"known annotation", pods(func(p *corev1.Pod, n, t string) { p.Annotations = map[string]string{"kueue.x-k8s.io/note": t} })},
	{"last applied", pods(func(p *corev1.Pod, n, t string) {
		p.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"data":{"x":` + quote(t) + `}}`}
	})},
	{"pod message", pods(func(p *corev1.Pod, n, t string) { p.Status.Message = t })},
	{"condition", pods(func(p *corev1.Pod, n, t string) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available: " + t}}
	})},
	{"termination", pods(func(p *corev1.Pod, n, t string) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "Traceback\n" + t + "\nexit"}}}}
	})},
	{"event", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.Events = append(f.Events, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("e-%d", i)}, Message: "Error: " + t})
	}},
	{"log", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.Logs[fmt.Sprintf("team-a/pod-%d/main", i)] = "step 1\n" + t + "\nstep 2\n"
	}},
	{"log with times", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		var b strings.Builder
		for _, line := range strings.Split(t, "\n") {
			b.WriteString("2026-11-15T12:00:00Z INFO worker.py:31 " + line + "\n")
		}
		f.Logs[fmt.Sprintf("team-a/pod-%d/main", i)] = b.String()
	}},
	{"job template", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		p := podFor(i)
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Env: []corev1.EnvVar{{Name: "WORLD_SIZE", Value: t}}, Args: []string{t}}}
		f.Jobs = append(f.Jobs, &batchv1.Job{ObjectMeta: p.ObjectMeta, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: p.Spec}}})
	}},
	{"configmap", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.ConfigMaps = append(f.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("c-%d", i)}, Data: map[string]string{"app.conf": t}})
	}},
	{"storage class", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.StorageClasses = append(f.StorageClasses, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d", i)}, Parameters: map[string]string{"options": t}})
	}},
	{"foreign field", foreigns("RayCluster", func(s map[string]any, n, t string) { s["somethingNew"] = t })},
	{"foreign list", foreigns("PyTorchJob", func(s map[string]any, n, t string) { s["options"] = []any{map[string]any{"first": []any{t}}} })},
	{"foreign env map", foreigns("TrainJob", func(s map[string]any, n, t string) { s["trainer"] = map[string]any{"envVars": map[string]any{n: t}} })},
	{"foreign env list", foreigns("MPIJob", func(s map[string]any, n, t string) {
		s["extraEnv"] = []any{map[string]any{"value": t, "name": "A"}}
	})},
	{"foreign name", foreigns("RayJob", func(s map[string]any, n, t string) { s["deep"] = map[string]any{n: t, n + "List": []any{t}} })},
	{"answer", func(f *facts.Facts, answers map[string]json.RawMessage, i int, n, t string) {
		answers[fmt.Sprintf("namespaces/team-a/workloads/w-%d", i)] = json.RawMessage(`{"metadata":{"name":"w"},"sentence":` + quote("waits: "+t) + `}`)
	}},
	{"unseen", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.Unseen = append(f.Unseen, facts.Unseen{Resource: "nodes", Reason: "Get: " + t})
	}},
	{"node", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.Nodes = append(f.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n-%d", i), Annotations: map[string]string{"bootstrap": t}}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "GpuProblem", Status: "True", Message: t}}}})
	}},
}

// more are carriers in rarer places.
var more = []carrier{
	{"priority class", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.PriorityClasses = append(f.PriorityClasses, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pc-%d", i)}, Description: t})
	}},
	{"policy", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.ValidatingAdmissionPolicies = append(f.ValidatingAdmissionPolicies, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("vap-%d", i)}, Spec: admissionv1.ValidatingAdmissionPolicySpec{Validations: []admissionv1.Validation{{Expression: "true", Message: t, MessageExpression: "'" + t + "'"}}}})
	}},
	{"ephemeral", pods(func(p *corev1.Pod, n, t string) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Command: []string{"sh", "-c", t}, Env: []corev1.EnvVar{{Name: n, Value: t}}}}}
	})},
	{"opaque", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.ResourceClaims = append(f.ResourceClaims, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("rc-%d", i)}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Config: []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: "d", Parameters: runtime.RawExtension{Raw: []byte(`{"x":` + quote(t) + `}`)}}}}}}}})
	}},
	{"attribute", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.ResourceSlices = append(f.ResourceSlices, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rs-%d", i)}, Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", Devices: []resourcev1.Device{{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"note": {StringValue: &t}}}}}})
	}},
	{"workload template", foreigns("Workload", func(s map[string]any, n, t string) {
		s["podSets"] = []any{map[string]any{"count": int64(1), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "env": []any{map[string]any{"name": n, "value": t}}, "args": []any{t}}}}}}}
	})},
	{"status of another's", foreigns("NodeClaim", func(s map[string]any, n, t string) {
		s["conditions"] = []any{map[string]any{"type": "Launched", "status": "False", "reason": "LaunchFailed", "message": "creating: " + t}}
	})},
	{"number", foreigns("RayCluster", func(s map[string]any, n, t string) {
		s["nested"] = map[string]any{"list": []any{[]any{t}, n + "=" + t}}
	})},
}

var notInLabels = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// bare are places where a secret stands alone, as a name would: what is in them has no word beside it.
var bare = []carrier{
	{"label", pods(func(p *corev1.Pod, n, t string) { p.Labels = map[string]string{"example.com/build": t} })},
	{"named label", pods(func(p *corev1.Pod, n, t string) { p.Labels = map[string]string{"example.com/" + n: t} })},
	{"selector", pods(func(p *corev1.Pod, n, t string) { p.Spec.NodeSelector = map[string]string{"example.com/build": t} })},
	{"toleration", pods(func(p *corev1.Pod, n, t string) { p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Value: t}} })},
	{"image", pods(func(p *corev1.Pod, n, t string) {
		p.Spec.Containers[0].Image = "user:" + t + "@registry.example.com/x:1"
	})},
	{"annotation of ours", pods(func(p *corev1.Pod, n, t string) {
		p.Annotations = map[string]string{"berth.dev/queue": t, "sim.berth.dev/x": t}
	})},
	{"field manager", pods(func(p *corev1.Pod, n, t string) { p.Status.Reason, p.Status.NominatedNodeName = t, "" })},
	{"event", func(f *facts.Facts, _ map[string]json.RawMessage, i int, n, t string) {
		f.Events = append(f.Events, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("ev-%d", i)}, Action: t, ReportingInstance: t, Reason: t})
	}},
	{"key of a map", foreigns("RayCluster", func(s map[string]any, n, t string) { s["seen"] = map[string]any{t: true} })},
	{"foreign id", foreigns("RayCluster", func(s map[string]any, n, t string) { s["mode"] = t })},
}

// shape is one planted secret.
type shape struct {
	carrier, wording, look, name string
	held                         bool
	secret                       string
}

func (s shape) String() string {
	return s.carrier + " / " + s.wording + " / " + s.look + " / " + s.name
}

// plant puts a secret of every wording into every carrier.
func plant(r *rand.Rand) (*facts.Facts, map[string]json.RawMessage, []shape) {
	f := &facts.Facts{At: taken, Kubernetes: "v1.37.1", Logs: map[string]string{}}
	answers := map[string]json.RawMessage{}
	bar := slices.Index(secretNames, "|")
	names := slices.Delete(slices.Clone(secretNames), bar, bar+1)
	var all []shape
	for _, c := range bare {
		for _, l := range looks {
			if l.plain || l.name == "short" || l.name == "small" {
				continue // nothing tells it from a name
			}
			at := r.IntN(len(names))
			s := shape{c.name, "bare", l.name, names[at], true, notInLabels.ReplaceAllString(l.draw(r), "x9")}
			c.put(f, answers, len(all), s.name, s.secret)
			all = append(all, s)
		}
	}
	for _, c := range slices.Concat(carriers, more) {
		for _, w := range wordings {
			l := looks[r.IntN(len(looks))]
			for l.plain && w.anything {
				l = looks[r.IntN(len(looks))]
			}
			at := r.IntN(len(names))
			s := shape{c.name, w.name, l.name, names[at], w.held || l.held || at >= bar, l.draw(r)}
			c.put(f, answers, len(all), s.name, w.write(s.name, s.secret))
			all = append(all, s)
		}
	}
	return f, answers, all
}

var pieces = regexp.MustCompile(`[A-Za-z0-9]{7,}`)

// survives says whether the secret, or a piece of it that is long enough to tell, is in the text, as it is or encoded.
func survives(text, secret string) bool {
	for _, form := range []string{secret, neturl.QueryEscape(secret), strings.Trim(quote(secret), `"`), escapeAll(secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
		if strings.Contains(text, form) {
			return true
		}
	}
	for _, run := range pieces.FindAllString(strings.TrimPrefix(secret, "AGE-SECRET-KEY-1"), -1) {
		if run != "eyJhbGciOiJIUzI1NiJ9" && strings.Contains(text, run) {
			return true
		}
	}
	return false
}

// TestPlantedSecrets writes a bundle of more than a thousand planted secrets. At most one in a hundred may be in it, and
// with --redact none.
func TestPlantedSecrets(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of bundles, one after the other")
	}
	seed := *plantSeed
	if n, err := strconv.ParseUint(os.Getenv("RAPID_SEED"), 10, 64); err == nil && seed == 0 {
		seed = n
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	f, answers, all := plant(rand.New(rand.NewPCG(seed, 13)))
	if len(all) < 300 {
		t.Fatalf("%d shapes", len(all))
	}
	for _, redact := range []bool{false, true} {
		o := BundleOptions{Answers: answers, Report: func(b *Bundle) ([]byte, error) { return Report(b, nil), nil }}
		most := len(all) / 100
		if redact {
			o.Redact, most = NewRedaction(f, nil), 0
		}
		data, _ := written(t, f, o)
		text := everything(t, data)
		lost := map[bool]int{}
		total := map[bool]int{}
		by := map[string]int{}
		for _, s := range all {
			total[s.held]++
			if survives(text, s.secret) {
				lost[s.held]++
				by[s.wording]++
				if testing.Verbose() {
					t.Logf("redact %v: survives: %s: %s", redact, s, s.secret)
				}
			}
		}
		t.Logf("seed %d, redact %v: %d of %d shapes survive; of those held out %d of %d; by wording %v", seed, redact, lost[false]+lost[true], len(all), lost[true], total[true], sorted(by))
		if lost[false]+lost[true] > most {
			t.Errorf("%d of %d planted secrets survive, %d may: go test ./kube/inspect -run TestPlantedSecrets -v -plant %d", lost[false]+lost[true], len(all), most, seed)
		}
	}
}

func sorted(m map[string]int) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(k + " " + strconv.Itoa(m[k]) + ", ")
	}
	return b.String()
}
