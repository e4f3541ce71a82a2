package mask

import (
	"regexp"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
	"github.com/zricethezav/gitleaks/v8/config"
)

// rule finds one kind of credential by its look. It is compiled when a text has one of its keywords for the first time.
type rule struct {
	text     string
	compiled *regexp.Regexp
	once     sync.Once
}

func (r *rule) regexp() *regexp.Regexp {
	r.once.Do(func() { r.compiled, _ = regexp.Compile(r.text) })
	return r.compiled
}

// ruleSet has the rules by their keywords, and the keywords by how they begin: one pass over a text finds all rules that
// may match it.
type ruleSet struct {
	byStart map[[3]byte][]keyword
}

type keyword struct {
	text  string // lower-case
	rules []*rule
}

// genericRules go by names of variables, which Sensitive knows more of.
var genericRules = map[string]bool{"generic-api-key": true, "kubernetes-secret-yaml": true}

// rules is gitleaks' own set, and ours.
var rules = sync.OnceValue(func() *ruleSet {
	var set struct {
		Rules []struct {
			ID       string   `toml:"id"`
			Regex    string   `toml:"regex"`
			Keywords []string `toml:"keywords"`
		} `toml:"rules"`
	}
	s := &ruleSet{byStart: make(map[[3]byte][]keyword)}
	if err := toml.Unmarshal([]byte(config.DefaultConfig), &set); err != nil {
		panic(err) // it is part of the program; a test reads it
	}
	for _, r := range set.Rules {
		if r.Regex != "" && !genericRules[r.ID] {
			s.add(&rule{text: r.Regex}, r.Keywords...)
		}
	}
	for _, o := range ownRules {
		s.add(&rule{text: o.regex}, o.keywords...)
	}
	return s
})

func (s *ruleSet) add(r *rule, keywords ...string) {
	for _, k := range keywords {
		k = strings.ToLower(k)
		if len(k) < 3 {
			continue // too short to say anything: the third step has what such rules find
		}
		at := [3]byte([]byte(k[:3]))
		s.byStart[at] = append(s.byStart[at], keyword{k, []*rule{r}})
	}
}

// apply masks what the rules find.
func (s *ruleSet) apply(text string) string {
	for _, r := range s.hit(text) {
		if re := r.regexp(); re != nil {
			text = replaceGroup(re, text)
		}
	}
	return text
}

// hit are the rules that may match the text.
func (s *ruleSet) hit(text string) (hit []*rule) {
	lower := strings.ToLower(text)
	for i := 0; i+3 <= len(lower); i++ {
		for _, k := range s.byStart[[3]byte{lower[i], lower[i+1], lower[i+2]}] {
			if strings.HasPrefix(lower[i:], k.text) {
				hit = appendNew(hit, k.rules...)
			}
		}
	}
	return hit
}

func appendNew(list []*rule, more ...*rule) []*rule {
next:
	for _, r := range more {
		for _, have := range list {
			if have == r {
				continue next
			}
		}
		list = append(list, r)
	}
	return list
}

// replaceGroup masks the first group of each match that has text, which is the secret; without one, the whole match.
func replaceGroup(re *regexp.Regexp, text string) string {
	found := re.FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return text
	}
	var b strings.Builder
	end := 0
	for _, at := range found {
		from, to := at[0], at[1]
		for g := 2; g+1 < len(at); g += 2 {
			if at[g] >= 0 && at[g+1] > at[g] {
				from, to = at[g], at[g+1]
				break
			}
		}
		if from < end {
			continue
		}
		b.WriteString(text[end:from])
		b.WriteString(Mask)
		end = to
	}
	return b.String() + text[end:]
}

// ownRules are looks that gitleaks has no rule for, or one that asks for more than a leaked text may have left.
var ownRules = []struct {
	regex    string
	keywords []string
}{
	{`\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[0-9A-Z]{12,}`, []string{"akia", "asia", "abia", "acca", "aroa", "aida"}},
	{`\bgh[pousr]_[A-Za-z0-9]{8,}`, []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}},
	{`\bgithub_pat_[A-Za-z0-9_]{8,}`, []string{"github_pat_"}},
	{`\bgl[a-z]{2,6}-[A-Za-z0-9_-]{8,}`, []string{"glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glimt-", "glagent-", "gloas-"}},
	{`\b(?:hf|api_org|npm|dop_v1|doo_v1|dor_v1|dapi|pypi-|shp(?:at|ca|pa|ss)|sq0[a-z]{3}|lin_api|figd|ntn|secret|fo1|fm[12]|rk|pk|sk|whsec|rubygems|sntrys|sbp|pul|prefect|pnu|xkeysib|xsmtpsib|key|re|nvapi|gsk|r8|tvly|pplx|cohere|vercel|ATATT3|ATCTT3|dckr_pat|dckr_oat|hvs|hvb|hvr|tskey|cio|CLOJARS|EAA[A-Z]|ya29|SG|AGE-SECRET-KEY|age1|LTAI|AKID|AIza|xox[abeoprs]|xapp|eyJ|glsa|glc|phc|phx|sl|v1\.0|ops|op|bkua|EZAK|EZTK|live|test)[_.-](?:[a-z]+[_-])?[A-Za-z0-9._=+/-]{12,}`, []string{"hf_", "npm_", "dop_", "sk_", "sk-", "pk_", "rk_", "hvs.", "hvb.", "hvr.", "dckr_", "ya29.", "sg.", "age-secret-key", "whsec_", "xox", "xapp-", "nvapi-", "gsk_", "glsa_", "tskey-", "pul-", "ops_", "r8_", "figd_", "shpat_", "atatt3", "live_", "test_", "ntn_", "secret_", "re_", "key-", "api_org_", "lin_api"}},
	{`\bAGE-SECRET-KEY-1[0-9A-Za-z]{8,}`, []string{"age-secret-key"}},
	{`\beyJ[A-Za-z0-9_=-]{6,}(?:\.[A-Za-z0-9_=-]*)*`, []string{"eyj"}},
	{`\$(?:apr1|[0-9a-z]{1,8})\$[^\s"']{8,}|\{S?SHA(?:256|512)?\}[^\s"']+`, []string{"$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$apr1$", "$argon2", "$pbkdf2", "$scrypt", "{sha", "{ssha"}},
	{`(?i)otpauth://\S+`, []string{"otpauth"}},
	{`(?i)https?://(?:[a-z0-9.-]*\.)?(?:slack\.com|discord(?:app)?\.com|office\.com|webhook\.office\.com|logic\.azure\.com|zapier\.com|pagerduty\.com|datadoghq\.com|ifttt\.com|telegram\.org|mattermost\.[a-z.]+|feishu\.cn|dingtalk\.com)/([^\s"'<>]+)`, []string{"slack.com", "discord.com", "discordapp.com", "office.com", "azure.com", "zapier.com", "telegram.org", "feishu.cn", "dingtalk.com", "ifttt.com"}},
}
