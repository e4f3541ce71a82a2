package mask

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// leaked are texts as people leak secrets in them; %s is the secret, and %b has it in base64. Not among them, because nothing
// tells it from a name or a path: password_X, root / X, /p:X.
var leaked = strings.Split(strings.TrimSpace(`
net use Z: \\filer\share /user:bob %s
net use \\filer\share %s /user:CORP\bob
net user bob %s /add
runas /user:bob /savecred %s
cmdkey /add:filer /user:bob /pass:%s
mysql -h db -u root -p%s app
mysqldump --user=root --password=%s app
PGPASSWORD=%s psql -h db -U app
sshpass -p %s ssh bob@h
sshpass -p'%s' scp a b@h:
curl -u bob:%s https://api.example.com/v1/x
curl -su "bob:%s" https://api.example.com/v1/x
curl --user bob:%s https://api.example.com/v1/x
curl --proxy-user bob:%s https://api.example.com
curl -H "X-Api-Key: %s" https://api.example.com
curl -H 'PRIVATE-TOKEN: %s' https://gitlab.example.com/api/v4/projects
wget --http-user=bob --http-password=%s https://h/x
docker login -u bob -p %s registry.example.com
echo %s | docker login -u bob --password-stdin registry.example.com
echo "%s" | sudo -S apt install x
echo '%s' | passwd --stdin bob
echo bob:%s | chpasswd
printf '%s' | kubectl create secret generic db --from-file=password=/dev/stdin
kubectl create secret generic db --from-literal password=%s
kubectl config set-credentials bob --token=%s
kubectl --token %s get pods
oc login --token=%s --server=https://api.c.example.com:6443
oc login -u bob -p %s https://api.c.example.com:6443
helm upgrade x ./x --set db.password=%s --set image.tag=v1
helm upgrade x ./x --set-string auth.rootPassword=%s,auth.user=app
terraform apply -var db_password=%s
ansible-playbook x.yml -e "ansible_become_pass=%s"
ansible-playbook x.yml --extra-vars '{"vault_pass":"%s"}'
az login --service-principal -u app -p %s --tenant t
az storage blob list --account-name a --account-key %s
gcloud auth activate-service-account --key-file=- <<< %s
aws configure set aws_secret_access_key %s
vault login %s
vault login -method=userpass username=bob password=%s
vault kv put secret/db value=%s
vault kv put secret/db password=%s
huggingface-cli login --token %s
hf auth login --token %s
wandb login %s
wandb login --relogin %s
gh auth login --with-token <<< "%s"
npm config set //registry.npmjs.org/:_authToken=%s
//registry.npmjs.org/:_authToken=%s
//npm.example.com/:_password=%b
_auth=%b
pip install --index-url https://bob:%s@pypi.example.com/simple x
poetry config pypi-token.pypi %s
twine upload -u __token__ -p %s dist/*
git clone https://oauth2:%s@gitlab.example.com/a/b.git
git clone https://%s@github.com/a/b.git
git remote set-url origin https://bob:%s@github.com/a/b.git
redis-cli -h r -a %s ping
REDISCLI_AUTH=%s redis-cli ping
redis://:%s@redis:6379/0
rediss://default:%s@redis.example.com:6380
mongodb+srv://app:%s@c0.abc.mongodb.net/db?retryWrites=true
postgres://app:%s@db:5432/app?sslmode=disable
postgresql+psycopg2://app:%s@db/app
mysql+pymysql://app:%s@db:3306/app
mssql+pyodbc://sa:%s@db/app?driver=ODBC+Driver+17
amqp://app:%s@rabbit:5672/vhost
clickhouse://default:%s@ch:9000/db
snowflake://bob:%s@acct/db/schema?warehouse=w
oracle+cx_oracle://bob:%s@db:1521/?service_name=x
cassandra://bob:%s@c1,c2/ks
neo4j+s://neo4j:%s@x.databases.neo4j.io
Server=tcp:x.database.windows.net,1433;Initial Catalog=d;User ID=sa;Password=%s;Encrypt=True
Data Source=db;User Id=scott;Pwd=%s;
DefaultEndpointsProtocol=https;AccountName=a;AccountKey=%s;EndpointSuffix=core.windows.net
Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=%s
jdbc:postgresql://db:5432/app?user=app&password=%s
jdbc:oracle:thin:scott/%s@db:1521:ORCL
jdbc:sqlserver://db:1433;user=sa;password=%s;encrypt=true
sqlplus scott/%s@ORCL
sqlcmd -S db -U sa -P %s -Q "select 1"
isql -U sa -P %s
cqlsh -u cassandra -p %s c1
mongosh "mongodb://h/db" --username bob --password %s
influx config create --token %s --org o
ldapsearch -x -D cn=admin,dc=x -w %s -b dc=x
smbclient //filer/share -U bob%%%s
mount -t cifs //filer/share /mnt -o username=bob,password=%s
rsync --password-file=<(echo %s) a b
lftp -u bob,%s sftp://h
ftp://bob:%s@ftp.example.com/x
s3cmd --access_key=AK --secret_key=%s ls
mc alias set m https://minio.example.com minioadmin %s
rclone config create r s3 access_key_id x secret_access_key %s
openssl enc -aes-256-cbc -k %s -in a -out b
openssl pkcs12 -in a.p12 -passin pass:%s -nodes
openssl rsa -in k.pem -passin pass:%s
gpg --batch --passphrase %s -d x.gpg
zip -P %s a.zip b
7z x a.7z -p%s
unzip -P %s a.zip
keytool -list -keystore a.jks -storepass %s
java -Djavax.net.ssl.keyStorePassword=%s -jar a.jar
java -Dspring.datasource.password=%s -jar a.jar
python train.py --wandb-key %s --epochs 3
python train.py --hf_token %s
python train.py --dbPasswrod %s
python train.py --pasword=%s
python train.py db.pasword=%s trainer.max_epochs=3
export OPENAI_KEY=%s
OPENAI_API_KEY="%s" python x.py
setx HF_TOKEN "%s"
set PGPASSWORD=%s
$env:WANDB_API_KEY = '%s'
ENV NGC_CLI_API_KEY %s
ARG NPM_TOKEN=%s
machine api.example.com login bob password %s
machine api.example.com
  login bob
  password %s
{"auths":{"nvcr.io":{"username":"$oauthtoken","password":"%s"}}}
{"auths":{"r.example.com":{"auth":"%b"}}}
{"data":{"blob":"%b"},"kind":"Secret"}
data:\n  password: %b
stringData:\n  anything: %s
config: '{"db":{"pass":"%s"}}'
config: "{\"db\":{\"pass\":\"%s\"}}"
args: ["--user", "bob", "--password", "%s"]
['mysql', '-u', 'root', '-p', '%s']
["curl","-u","bob:%s","https://h"]
[--token %s --port 1]
exec [/app/run --api-token %s --port 8080]
wachtwoordje: %s
Passwort für bob ist %s
mot de passe : %s
el secreto es %s
la contraseña de bob es %s
密码是%s
密码为 %s
パスワードは %s です
пароль от базы: %s
비밀번호는 %s 입니다
Hasło: %s
db-passphrase: %s
dbPassPhrase: %s
DBPASSPHRASE=%s
pasword: %s
passwrd: %s
pswd=%s
paswd: %s
passowrd: %s
secrete: %s
tokne=%s
credz: %s
pass_word=%s
p4ssw0rd: %s
my-api-kay: %s
user bob password %s
username bob, password %s
logged in as bob with %s
Login with bob / %s
credentials bob/%s rejected
auth failed for bob (password: %s)
ERROR 1045: access denied for user bob using password %s
trying password "%s"
using token %s
got token %s from server
token refreshed: %s
Your one-time code is %s
use the PIN %s
recovery code: %s
the key is %s
api_key -> %s
password ==> %s
password\t%s
password	%s
PASSWORD   : %s
"password" , "%s"
password=>%s
(password %s)
password<%s>
password[%s]
password/%s
password~%s
password#%s
password;%s
password!%s
password*%s*
:password "%s"
password := "%s"
password ?= %s
password += %s
password eq '%s'
password == "%s"
assert password == '%s'
if token != "%s" {
INSERT INTO users (name, password) VALUES ('bob', '%s')
UPDATE users SET password = '%s' WHERE name = 'bob'
CREATE USER bob WITH PASSWORD '%s'
CREATE USER bob IDENTIFIED BY '%s'
ALTER USER bob IDENTIFIED BY "%s"
GRANT ALL ON *.* TO 'bob'@'%%' IDENTIFIED BY '%s'
CREATE ROLE bob LOGIN ENCRYPTED PASSWORD '%s'
ALTER ROLE bob PASSWORD '%s'
CREATE LOGIN bob WITH PASSWORD = '%s'
SET PASSWORD FOR bob = PASSWORD('%s')
COPY t FROM 's3://b/k' CREDENTIALS 'aws_access_key_id=x;aws_secret_access_key=%s'
requirepass %s
masterauth %s
AUTH %s
AUTH default %s
USER bob
PASS %s
AUTH PLAIN %b
AUTH LOGIN %b
Proxy-Authorization: Basic %b
authorization: bearer %s
Authorization=Bearer+%s
x-amz-security-token: %s
cookie: sessionid=%s
Set-Cookie: csrftoken=%s; Path=/
GET /login?user=bob&pwd=%s HTTP/1.1
POST /oauth/token grant_type=password&username=bob&password=%s
{"grant_type":"password","username":"bob","password":"%s"}
<add key="DbPassword" value="%s" />
<password><![CDATA[%s]]></password>
<server><username>bob</username><password>%s</password></server>
wsse:Password Type="PasswordText">%s</wsse:Password>
snmpwalk -v2c -c %s h
snmpget -v3 -A %s -X x h
ipmitool -I lanplus -H bmc -U admin -P %s chassis status
racadm -r bmc -u root -p %s getsysinfo
iscsiadm --op=update -n node.session.auth.password -v %s
wpa_passphrase home %s
psk="%s"
nmcli dev wifi connect home password %s
htpasswd -bc f bob %s
useradd -p %s bob
usermod --password %s bob
mkpasswd -m sha-512 %s
cryptsetup luksOpen /dev/sdb x --key-file <(echo -n %s)
age -d -i <(echo %s) x.age
ssh-keygen -t rsa -N %s -f k
ssh-keygen -N '%s' -f k
expect -c 'send "%s\r"'
spawn ssh bob@h; expect "assword:"; send "%s\n"
kinit bob <<< %s
echo %s | kinit bob
su - bob -c x <<< '%s'
mcli login --api-key %s
sky api login --token=%s
ngc registry login %s
docker run -e DB_PASSWORD=%s app
docker run -e DB_PASSWORD="%s" app
docker build --build-arg TOKEN=%s .
nerdctl login -u bob --password %s r.example.com
skopeo copy --src-creds bob:%s docker://a docker://b
skopeo copy --dest-creds=bob:%s docker://a docker://b
crane auth login -u bob -p %s r.example.com
oras login -u bob -p %s r.example.com
singularity remote login -u bob -p %s
mlflow://bob:%s@h
MLFLOW_TRACKING_PASSWORD=%s
spark.hadoop.fs.s3a.secret.key %s
fs.azure.account.key.a.dfs.core.windows.net=%s
--conf spark.hadoop.fs.s3a.secret.key=%s
ray start --redis-password=%s
ray start --redis-password '%s'
jupyter lab --NotebookApp.token=%s
http://h:8888/?token=%s
http://h:8888/lab?token=%s
tensorboard --auth bob:%s
grafana: admin/%s
admin:%s
user: bob pass: %s
user=bob pass=%s
u: bob p: %s
bob's password is %s
Password for bob: %s
Enter passphrase for key '/root/.ssh/id_rsa': %s
password changed from %s to %s
new-password=%s old-password=%s
-pass=%s
/pass:%s
/password:%s
--pw %s
--pw=%s
--pwd=%s
--auth %s
--auth=%s
--cred bob:%s
--creds=bob:%s
--credentials bob:%s
--secret %s
--key %s
--access-key=%s
--apikey %s
-Password %s
-Token:%s
password@%s
`), "\n")

func TestLeaked(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	words := strings.Fields("violet otter marble cactus lantern walrus thistle magnet willow saddle kettle parrot velvet")
	for _, text := range leaked {
		text = strings.ReplaceAll(text, `\n`, "\n")
		for _, secret := range []string{words[r.IntN(len(words))] + words[r.IntN(len(words))], fmt.Sprintf("Tr0ub.%c$_ddz%d", 'a'+r.IntN(26), r.IntN(10))} {
			encoded := base64.StdEncoding.EncodeToString([]byte("bob:" + secret))
			var m Masker
			out := m.Text("2026-11-19T12:00:00Z INFO run.sh:3 " + strings.NewReplacer("%s", secret, "%b", encoded, "%%", "%").Replace(text))
			if strings.Contains(out, secret) || strings.Contains(out, encoded) {
				t.Errorf("%q became %q", text, out)
			}
		}
	}
}

// What somebody needs who looks for the cause is left as it is.
func TestHarmlessStays(t *testing.T) {
	m := Masker{Names: make(map[string]bool)}
	for _, name := range strings.Fields("team-a team-a/db train-0 train-1 creds registry-creds web train-llama password") {
		m.Names[name] = true
	}
	for _, text := range harmless {
		if out := m.Text(text); out != text {
			t.Errorf("%q became %q", text, out)
		}
	}
}

var harmless = strings.Split(strings.TrimSpace(`
0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {nvidia.com/gpu: present}. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.
Successfully assigned team-a/train-0 to gke-prod-a100-pool-1-7f3b2c4d-x9kz
Pulling image "nvcr.io/nvidia/pytorch:24.10-py3"
Successfully pulled image "nvcr.io/nvidia/pytorch:24.10-py3" in 1m22.123s (1m22.5s including waiting). Image size: 10234567890 bytes.
Failed to pull image "registry.example.com/team/app:v1.2.3": rpc error: code = NotFound desc = failed to resolve reference "registry.example.com/team/app:v1.2.3": not found
Back-off restarting failed container main in pod train-0_team-a(0b8f6f7e-3c1d-4a5e-9f0b-1c2d3e4f5a6b)
image sha256:9b2a28eb47540823042a2ba401386845089bb7b62a9637d55816132c4c3c36eb
nvcr.io/nvidia/cuda@sha256:9b2a28eb47540823042a2ba401386845089bb7b62a9637d55816132c4c3c36eb
NVRM: Xid (PCI:0000:3b:00): 79, pid=12345, name=python, GPU has fallen off the bus.
NVRM: Xid (PCI:0000:0f:00): 48, pid='<unknown>', name=<unknown>, DBE (double bit error) ECC Error
NVRM: Xid (PCI:0000:86:00): 94, pid=7194, name=python3, Ch 00000008, Contained: SM (0x1)
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5d3f1e2a-7b6c-4d8e-9f0a-1b2c3d4e5f60)
MIG 1g.10gb Device 0: (UUID: MIG-8a2b3c4d-1e2f-5a6b-9c8d-7e6f5a4b3c2d)
train-0:1234:1250 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.7<0>
train-0:1234:1250 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
train-0:1234:1301 [3] NCCL WARN Timeout waiting for connection from 10.0.0.8<43210>
[rank0]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2027, unhandled system error
[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600123 milliseconds before timing out.
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.2 GiB is free.
RuntimeError: CUDA error: an illegal memory access was encountered
epoch 3 step 1200 loss 2.3456 lr 1.0e-04 tokens/s 123456 mfu 0.412
tokens per second: 45678 max_tokens: 4096
2026-11-19T17:08:09.123456789Z INFO starting
I1119 17:08:09.123456       1 scheduler.go:123] Attempting to schedule pod
E1119 17:08:09.123456   12345 kubelet.go:2347] "Container runtime network not ready" networkReady="NetworkReady=false"
exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=56, limited: requests.nvidia.com/gpu=60
couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed
node(s) didn't match Pod's node affinity/selector
persistentvolumeclaim "data" not found
secret "registry-creds" not found
MountVolume.SetUp failed for volume "creds" : secret "creds" not found
Error: couldn't find key password in Secret team-a/db
configmap "settings" not found
pods "train-0" is forbidden: error looking up service account team-a/trainer: serviceaccount "trainer" not found
Operation cannot be fulfilled on pods "x": the object has been modified; please apply your changes to the latest version and try again
Liveness probe failed: Get "http://10.0.0.7:8080/healthz": dial tcp 10.0.0.7:8080: connect: connection refused
Readiness probe failed: HTTP probe failed with statuscode: 503
OOMKilled exit code 137
Killed by signal 9, memory cgroup out of memory: Killed process 4321 (python) total-vm:123456kB, anon-rss:98765kB
node ip-10-0-12-34.ec2.internal status is now: NodeNotReady
gke-cluster-1-gpu-pool-3f2a1b0c-9xkq
aks-gpunp-12345678-vmss000003
i-0abcd1234ef567890
arn:aws:ec2:us-east-1:123456789012:instance/i-0abcd1234ef567890
projects/my-project/zones/us-central1-a/instances/gpu-1
/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/vm1
InsufficientInstanceCapacity: We currently do not have sufficient p5.48xlarge capacity in the Availability Zone you requested (us-east-1a).
ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS: the zone 'us-central1-a' does not have enough resources available
You have requested more vCPU capacity than your current vCPU limit of 64 allows
QuotaExceeded: Operation could not be completed as it results in exceeding approved standardNDSH100v5Family Cores quota
commit 4ef1927f4b1c9a7d0e8f3a2b5c6d7e8f90123456
at commit 4ef1927f
Kubernetes v1.34.2+k3s1 containerd 2.1.4 kernel 6.8.0-1021-aws
Driver Version: 570.124.06 CUDA Version: 12.8
libcuda.so.1: cannot open shared object file: No such file or directory
OSError: [Errno 28] No space left on device: '/data/checkpoints/step_1200.pt'
saved checkpoint to /data/checkpoints/step-001200/model-00001-of-00004.safetensors
loaded s3://bucket/datasets/c4/train-00042-of-01024.parquet
downloading https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json
See https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/
https://docs.nvidia.com/deploy/xid-errors/index.html
KeyError: 'lm_head.weight'
KeyError: 'input_ids'
unexpected token < in JSON at position 0
Token indices sequence length is longer than the specified maximum sequence length for this model (1025 > 1024)
tokenizer.pad_token_id is None; setting pad_token to eos_token
The attention mask and the pad token id were not set.
generated 128 tokens in 2.31s
primary key violation on table runs
cache key miss for bucket 12
sort key: priority
no key found for node
topologyKey: kubernetes.io/hostname
invalid bearer token
Unauthorized: authentication required
pull access denied for app, repository does not exist or may require 'docker login'
x509: certificate signed by unknown authority
TLS handshake timeout
context deadline exceeded
etcdserver: request timed out
volume "pvc-3f2a1b0c-1234-4a5b-8c9d-0e1f2a3b4c5d" is being attached
Multi-Attach error for volume "pvc-3f2a1b0c-1234-4a5b-8c9d-0e1f2a3b4c5d" Volume is already used by pod(s) train-1
requests: cpu=8, memory=64Gi, nvidia.com/gpu=8, ephemeral-storage=100Gi
limits: nvidia.com/mig-1g.10gb: 1
tolerations: key=nvidia.com/gpu operator=Exists effect=NoSchedule
PCI 0000:3b:00.0 bus id 00000000:3B:00.0
00000000:0F:00.0 Off
Thu Nov 19 17:08:09 2026
md5 d41d8cd98f00b204e9800998ecf8427e
etag "33a64df551425fcc55e4d42a148795d9f25f89d4"
job-name=train-llama controller-uid=0b8f6f7e-3c1d-4a5e-9f0b-1c2d3e4f5a6b
Created pod: train-llama-worker-0
JobSet train: restarts 2 of 3
fabric manager state: in progress, cluster UUID 00000000-0000-0000-0000-000000000000
ECC errors: volatile uncorrectable 12, remapped rows pending
Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error
nvidia-device-plugin: E1119 failed to register with kubelet
infiniband mlx5_0 port 1 state: DOWN
MASTER_ADDR=train-0.train.team-a.svc.cluster.local MASTER_PORT=29500 WORLD_SIZE=16 RANK=3
export NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=eth0
python train.py --batch-size 32 --lr 3e-4 --epochs 10
torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d train.py
ModuleNotFoundError: No module named 'flash_attn'
ValueError: Unrecognized configuration class <class 'transformers.models.llama.configuration_llama.LlamaConfig'>
huggingface_hub.utils._errors.GatedRepoError: 403 Client Error. Access to model meta-llama/Llama-3.1-8B is restricted
password authentication failed for user "app"
authentication token expired
The token is invalid or has expired
missing required key in secret
the password field is required
JSONDecodeError: Expecting value: line 1 column 1 (char 0)
assertion failed: expected 3 got 4
login succeeded
user logged in
Login to the node and check dmesg
expect 8 GPUs but found 7
the net effect is lower throughput
http server listening on 0.0.0.0:8080
https proxy is not set
vault is sealed
curl: (6) Could not resolve host: huggingface.co
docker: Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]].
bash: nvidia-smi: command not found
ssh: connect to host train-1 port 22: Connection refused
git clone https://github.com/NVIDIA/nccl-tests.git
root:x:0:0
helm upgrade succeeded
values are up to date
zip file is empty
bandwidth 187.42 GB/s busbw 350.12
`), "\n")
