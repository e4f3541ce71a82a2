package mask

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestSensitive(t *testing.T) {
	for _, name := range strings.Fields(`PGPASSWORD dbpassword secretkey restuserkey accountkey API_KEY_1 GITHUB_TOKEN_RO TOKENS MASTER_KEY_B64 client-key-data DB_PASS smtpPwd apiToken X-Auth-Token example.com/api-token
		AWS_SECRET_ACCESS_KEY privateKeyPem oauth2ClientSecret SAS_TOKEN kdbxPassword sessionCookie jwtSigningKey
		db_clave MDP cleApi HASLO_BAZY dbWachtwoord lösenord contraseña Пароль 数据库密码 パスワード 비밀번호`) {
		if !Sensitive(name) {
			t.Errorf("%s is the name of a secret", name)
		}
	}
	for _, name := range strings.Fields(`tokenizer max_tokens max-new-tokens tokens_per_second secretName secretRef provisioner-secret-name topologyKey monkey enclave nucleus bypass author KeyError TokenExpired password_length image queue nodeName`) {
		if Sensitive(name) {
			t.Errorf("%s is not", name)
		}
	}
}

// What stands beside a name is masked in whatever language the name is, and wherever in the text it stands; what is said of
// a secret that has no look of its own, too.
func TestWordsThatAreSecrets(t *testing.T) {
	for _, text := range []string{
		"ongehoord=%s", "salainen_arvo: %s", `{"тайна":"%s"}`, "ongeldig：%s", // names that nobody here knows
		"lösenord: %s", "DB_CLAVE=%s", "--haslo %s", "密码：%s", "<contraseña>%s</contraseña>", `[{"value":"%s","name":"пароль"}]`,
		"user,password,host\nbob,%s,db-1", "| user | password |\n|---|---|\n| bob | %s |", "NAME   TOKEN   AGE\nbob    %s    5d", "Password:\n%s\nwelcome",
		"new password for user bob: %s", "%s is the new password", "mytool login -u bob -p %s", "GET /callback?code=%s&state=1 200",
		"kubectl create secret generic x --from-literal=one=%s", `Authorization: Digest username="bob", response="%s"`, "login bob:%s", "user=bob/%s@ORCL",
	} {
		for _, secret := range []string{"lanternottermagnet", "walrus", "kettle-otter-marble-thistle", "482915"} {
			var m Masker
			if out := m.Text(strings.ReplaceAll(text, "%s", secret)); strings.Contains(out, secret) {
				t.Errorf("%s: %q", secret, out)
			}
		}
	}
}

// Letters drawn at random are no word, though no two digits stand beside them. Words are, in other languages too.
func TestRandomLetters(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, first := range []byte{'a', 'A'} {
		lost := 0
		for range 1000 {
			b := make([]byte, 12+r.IntN(12))
			for i := range b {
				b[i] = first + byte(r.IntN(26))
			}
			var m Masker
			if text := "pod said " + string(b) + " and went"; m.Text(text) == text {
				lost++
			}
		}
		if lost > 15 {
			t.Errorf("%d of 1000 random texts of letters stay", lost)
		}
	}
	for _, word := range strings.Fields(`huggingface imagepullbackoff crashloopbackoff bioinformatics computervision autonomousdriving sentencetransformers backpropagation stablediffusion arbeitsspeicher geschwindigkeit
		krankenversicherung yhteiskunta investigacion developpement recommandations ENVIRONMENTAL`) {
		var m Masker
		if text := "model " + word + " is loaded"; m.Text(text) != text {
			t.Errorf("%s: %q", word, m.Text(text))
		}
	}
}

// What a cloud calls a machine says what a node is, and what is sold out: it leaves, wherever it stands.
func TestTypesOfMachinesLeave(t *testing.T) {
	var m Masker
	for _, name := range strings.Fields(`p4d.24xlarge p4de.24xlarge p5.4xlarge p5.48xlarge p5e.48xlarge p5en.48xlarge p6-b200.48xlarge p6e-gb200.36xlarge g5.12xlarge g6e.xlarge g6f.2xlarge gr6.4xlarge g4dn.metal g5g.16xlarge trn1n.32xlarge trn2.48xlarge trn2u.48xlarge inf2.24xlarge dl1.24xlarge m7i-flex.large c6in.8xlarge x2iedn.32xlarge u-6tb1.56xlarge r7gd.medium
		a2-highgpu-1g a2-ultragpu-8g a2-megagpu-16g a3-highgpu-8g a3-edgegpu-8g a3-megagpu-8g a3-ultragpu-8g a4-highgpu-8g a4x-highgpu-4g g2-standard-96 g4-standard-384 n1-standard-16 c3-highcpu-176 c4d-highmem-96-lssd e2-medium m3-ultramem-128 ct4p-hightpu-4t ct5lp-hightpu-8t ct5p-hightpu-4t ct6e-standard-4t tpu7x-standard-4t
		Standard_NC24ads_A100_v4 Standard_NC40ads_H100_v5 Standard_NC80adis_H100_v5 Standard_NC6s_v3 Standard_NC64as_T4_v3 Standard_ND96asr_v4 Standard_ND96amsr_A100_v4 Standard_ND96isr_H100_v5 Standard_ND96isr_H200_v5 Standard_ND96isrf_H200_v5 Standard_ND96isr_MI300X_v5 Standard_ND128isr_NDR_GB200_v6 Standard_NV36ads_A10_v5 Standard_NV12s_v3 Standard_D4s_v5 Standard_D8pds_v6 Standard_E64is_v3 Standard_HB120rs_v3 Standard_HX176rs
		BM.GPU4.8 BM.GPU.A100-v2.8 BM.GPU.H100.8 BM.GPU.B200.8 BM.GPU.MI300X.8 VM.GPU.A10.2 VM.GPU3.4 VM.Standard.E5.Flex VM.Standard3.Flex BM.Optimized3.36
		gd-8xh100ib-i128 gd-8xb200ib-i128 gd-1xgh200 gb200-4x gd-8xl40s-i128 cd-gp-i64-erapids cd-hp-a96-genoa turin-gp
		gpu_8x_h100_sxm5 gpu_1x_gh200 gpu_8x_a100_80gb_sxm4 gpu-h100x8-640gb gpu-mi300x8-1536gb s-4vcpu-8gb gx2-16x128x2v100 gx3d-160x1792x8h100 bx2-4x16 ecs.gn7e-c16g1.16xlarge ecs.gn8v-8x.48xlarge ecs.ebmgn7ex.32xlarge ecs.g7.large
		GN10Xp.20XLARGE320 PNV5b.48XLARGE768 H100-8-80G H100-SXM-8-80G L40S-4-48G gpu-h100-sxm.8gpu-128vcpu-1600gb 8gpu-160vcpu-1792gb standard-8 b2-15 h100-380 vc2-4c-8gb vcg-a100-12c-120g-80vram`) {
		for _, text := range []string{name, "instance type " + name + " is not offered in us-east-1a", "(" + name + ")", `"` + name + `":`, "instanceType=" + name, "GPU/" + name} {
			if got := m.Text(text); got != text {
				t.Errorf("%q became %q", text, got)
				break
			}
		}
	}
}

// Rules of gitleaks are data of another project: all of them can be read and compiled.
func TestRulesCompile(t *testing.T) {
	n := 0
	for _, list := range rules().byStart {
		for _, k := range list {
			for _, r := range k.rules {
				if n++; r.regexp() == nil {
					t.Errorf("%s does not compile", r.text)
				}
			}
		}
	}
	if n < 200 {
		t.Errorf("%d rules", n)
	}
}

// FuzzText: what is masked stays masked and nothing more goes; a planted secret does not survive under the name of one.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "password=x", `{"token":"a\"b"}`, "-----BEGIN X PRIVATE KEY-----\nabc", "postgres://u:p@h/x", "a: |\n  b\n", "%70%61ss=%3d", `\u0070assword: x`, "secret \"creds\" not found", "<password>x</password>", "\xff\xfe", "key key key: ="} {
		f.Add(s, "hunter2")
	}
	f.Fuzz(func(t *testing.T, s, secret string) {
		for _, strict := range []bool{false, true} {
			m := &Masker{Strict: strict, Names: map[string]bool{"train-0": true}}
			once := m.Text(s)
			if again := m.Text(once); again != once {
				t.Errorf("strict %v: %q became %q, and then %q", strict, s, once, again)
			}
		}
		if len(secret) < 6 || strings.ContainsAny(secret, " \t\r\n<>\"'`\\%&") || strings.Contains(Mask, secret) || strings.Contains("password", secret) || strings.Contains(s, secret) || !ascii(secret) {
			return
		}
		var m Masker
		for _, text := range []string{"password=" + secret, s + "\npassword=" + secret, `{"password":"` + secret + `"}`, "--password " + secret} {
			if out := m.Text(text); strings.Contains(out, secret) {
				t.Errorf("%q became %q", text, out)
			}
		}
	})
}

// Texts that are put together at random from what means something to the steps are masked once and for all.
func TestMaskedStaysMasked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"password", "token", "secret", "key", "api key", "Authorization", "=", ":", " ", "  ", "\n", "\"", "'", "\\\"", "{", "}", "[", "]", "(", ",", ";", "<", ">", "|", "-", "--", "-p", "@", "://", "?", "&", "%3D", "\\u003d", "&quot;", Mask, "MASKED-1", "hunter2", "x7Kq92mZp0", "train-0", "node", "is", "not found", "mysql", "aGVsbG8gd29ybGQ=", "-----BEGIN X-----", "-----END X-----", "eyJhbGciOiJIUzI1NiJ9", "2026-11-15T12:00:00Z", "é", "\xff", "name", "value", "p", "$", "#", "!"}
	for range 20000 {
		var b strings.Builder
		for range 1 + r.IntN(9) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		for _, strict := range []bool{false, true} {
			m := &Masker{Strict: strict, Names: map[string]bool{"train-0": true}}
			once := m.Text(b.String())
			if again := m.Text(once); again != once {
				t.Fatalf("strict %v: %q became %q, and then %q", strict, b.String(), once, again)
			}
		}
	}
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// A quarter of a mebibyte, whatever is in it, takes tenths of a second; were any step quadratic, it would take minutes.
func TestTimeIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time, which the race detector stretches")
	}
	for _, unit := range []string{"password=", "a:", "-----BEGIN ", "{\"key\":", "token ", "((((", "\\\"", "eyJ", "%25", "x7K", "://@", "key: \n  ", "- p ", "mysql -p", "a.", "train-", "<<E\n", "pod a-b ", "env[1]: Invalid value: ", "token went: "} {
		m := Masker{Names: map[string]bool{"train-0": true}}
		start := time.Now()
		m.Text(strings.Repeat(unit, 256<<10/len(unit)))
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("%q: %s", unit, took)
		}
	}
}
