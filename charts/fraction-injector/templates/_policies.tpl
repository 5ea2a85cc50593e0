{{/*
What the second lock needs to know of the policies, in CEL. Helm cannot ask the product, so that the presets'
limits stand here a second time; a test compares them with the presets.
*/}}

{{/* Variables that hold the limit, by preset and mode: NAME=value, {memory_mib} standing for the share. */}}
{{- define "fraction-injector.presetLimits" -}}
hami-core:
  per-gpu: ["CUDA_DEVICE_MEMORY_LIMIT_0={memory_mib}m", "LD_PRELOAD=/usr/local/vgpu/libvgpu.so"]
  pooled: ["CUDA_DEVICE_MEMORY_LIMIT={memory_mib}m", "LD_PRELOAD=/usr/local/vgpu/libvgpu.so"]
  dra: ["CUDA_DEVICE_MEMORY_LIMIT={memory_mib}m", "LD_PRELOAD=/usr/local/vgpu/libvgpu.so"]
  mig: ["LD_PRELOAD=/usr/local/vgpu/libvgpu.so"]
nvidia-driver:
  per-gpu: ["NVIDIA_GPU_MEMORY_LIMIT={memory_mib}"]
  pooled: ["NVIDIA_GPU_MEMORY_LIMIT={memory_mib}"]
  dra: ["NVIDIA_GPU_MEMORY_LIMIT={memory_mib}"]
  mig: ["NVIDIA_GPU_MEMORY_LIMIT={memory_mib}"]
clearml-image: {per-gpu: [], pooled: [], dra: [], mig: []}
none: {per-gpu: [], pooled: [], dra: [], mig: []}
{{- end -}}

{{/* The same for one limiter in one mode, own files first: (dict "root" $ "limiter" NAME "mode" MODE). */}}
{{- define "fraction-injector.limits" -}}
{{- $limits := list -}}
{{- $own := dig .limiter dict .root.Values.limiters -}}
{{- if and (hasKey .root.Values.limiters .limiter) (not $own.extends) -}}
{{- $env := merge (dict) (dig "modes" .mode "env" dict $own) (dig "env" dict $own) -}}
{{- range $name, $value := $env -}}
{{- if and (contains "{memory_mib}" $value) (not (contains "{" (replace "{memory_mib}" "" $value))) -}}
{{- $limits = append $limits (printf "%s=%s" $name $value) -}}
{{- end -}}
{{- end -}}
{{- with $own.ldPreload -}}{{- $limits = append $limits (printf "LD_PRELOAD=%s" .) -}}{{- end -}}
{{- else -}}
{{- $presets := include "fraction-injector.presetLimits" .root | fromYaml -}}
{{- $name := $own.extends | default .limiter -}}
{{- if not (hasKey $presets $name) -}}
{{- fail (printf "limiter %q is not defined: use %s, or define it under limiters" .limiter (keys $presets | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $limits = dig $name .mode list $presets -}}
{{- end -}}
{{- $limits | toJson -}}
{{- end -}}

{{/* Not empty if a policy or queue has reclaimIdle: evict: the controller then evicts idle pods. */}}
{{- define "fraction-injector.reclaimsIdle" -}}
{{- range $part := concat (values .Values.policies) (values .Values.queues) -}}{{- if eq (dig "reclaimIdle" "never" $part) "evict" -}}true{{- end -}}{{- end -}}
{{- end -}}

{{/* Not empty if agents measure what pods use: the controller then keeps a history, and sees idle shares. */}}
{{- define "fraction-injector.keepsUse" -}}
{{- if and .Values.agent.enabled .Values.agent.podMetrics .Values.controller.enabled -}}true{{- end -}}
{{- end -}}

{{/* Not empty if pods over a quota wait: the controller then removes scheduling gates. */}}
{{- define "fraction-injector.letsWait" -}}
{{- range $policy := .Values.policies -}}{{- if eq (dig "quotas" "whenOverQuota" "deny" $policy) "wait" -}}true{{- end -}}{{- end -}}
{{- range $queue := .Values.queues -}}{{- if eq (dig "whenOverQuota" "deny" $queue) "wait" -}}true{{- end -}}{{- end -}}
{{- end -}}

{{/* Modes by name: the default resource name of policies. */}}
{{- define "fraction-injector.modes" -}}
per-gpu: {resource: "nvidia.com/gpu-{index}"}
pooled: {resource: nvidia.com/gpu}
dra: {resource: gpu.clearml-injector.io}
mig: {resource: "nvidia.com/mig-{profile}"}
{{- end -}}

{{/* "true" if a policy enables an alias: (dict "root" $ "alias" NAME). */}}
{{- define "fraction-injector.takesAlias" -}}
{{- $taken := false -}}
{{- range $policy := .root.Values.policies -}}{{- if dig "aliases" $.alias false $policy -}}{{- $taken = true -}}{{- end -}}{{- end -}}
{{- $taken -}}
{{- end -}}

{{/* The mode that a policy states by its `resources`; `auto` if it leaves the mode to the chart. */}}
{{- define "fraction-injector.statedMode" -}}
{{- $resources := default dict .resources -}}
{{- $mode := default "auto" $resources.mode -}}
{{- if ne $mode "auto" -}}{{ $mode }}
{{- else if $resources.driver -}}dra
{{- else if or $resources.name $resources.prefer -}}per-gpu
{{- else -}}auto
{{- end -}}
{{- end -}}

{{/*
How the agent offers cards, `device-plugin` or `dra`; empty without an agent. It offers all cards in one way, so a policy
that states slices, or a value that is for slices, decides for all policies that state nothing.
*/}}
{{- define "fraction-injector.offer" -}}
{{- $agent := .Values.agent -}}
{{- $offer := default "auto" $agent.offer -}}
{{- $modes := list -}}
{{- $claims := false -}}
{{- range $policy := .Values.policies -}}
{{- $mode := include "fraction-injector.statedMode" $policy -}}
{{- $modes = append $modes $mode -}}
{{- if and (eq $mode "dra") (eq (include "fraction-injector.resource" $policy) "gpu.clearml-injector.io") -}}{{- $claims = true -}}{{- end -}}
{{- end -}}
{{- $own := include "fraction-injector.statedMode" (dig $agent.policy dict .Values.policies) -}}
{{- if not $agent.enabled -}}
{{- else if ne $offer "auto" -}}{{ $offer }}
{{- else if $claims -}}dra
{{- else if or (ne $own "auto") (has "per-gpu" $modes) (has "pooled" $modes) -}}device-plugin
{{- else if or $agent.divide .Values.devicePlugin.enabled (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) -}}device-plugin
{{- else -}}dra
{{- end -}}
{{- end -}}

{{/* JSON: the policies by name, each with the mode that it has in this cluster. */}}
{{- define "fraction-injector.policies" -}}
{{- $chosen := ternary "dra" "per-gpu" (eq (include "fraction-injector.offer" .) "dra") -}}
{{- $out := dict -}}
{{- range $name, $policy := .Values.policies -}}
{{- $mode := include "fraction-injector.statedMode" $policy -}}
{{- if eq $mode "auto" -}}{{- $mode = $chosen -}}{{- end -}}
{{- $_ := set $out $name (merge (dict "resources" (merge (dict "mode" $mode) (default dict $policy.resources))) (omit $policy "resources")) -}}
{{- end -}}
{{- $out | toJson -}}
{{- end -}}

{{/* JSON: keys of a policy that mode dra does not have, each with true if it is set: (dict "root" $ "name" NAME "policy" POLICY). */}}
{{- define "fraction-injector.notOfClaims" -}}
{{- $policy := .policy -}}
{{- $quotas := list (default dict $policy.quotas) -}}
{{- range $entry := .root.Values.queues -}}
{{- if eq (default "default" $entry.policy) $.name -}}{{- $quotas = append $quotas (default dict $entry.quota) -}}{{- end -}}
{{- end -}}
{{- $perPod := "\\{(index|slices|percent)\\}" -}}
{{- $limiter := default dict (get .root.Values.limiters (default "hami-core" $policy.limiter)) -}}
{{- dict "place" (ne (default "pack" $policy.place) "pack") "sameModel" (default false $policy.sameModel) "compute" (ne (toString (default "none" $policy.compute)) "none") "memory.reserveMiB" (gt (int (dig "memory" "reserveMiB" 0 $policy)) 0) "slicesPerGpu, with quotas in slices," (and (ne (int (default 8 $policy.slicesPerGpu)) 8) (contains "\"slices\":" ($quotas | toJson))) "env, with {index}, {slices} or {percent}," (regexMatch $perPod ($policy.env | toJson)) "limiter, with {index}, {slices} or {percent}," (regexMatch $perPod ($limiter.env | toJson)) | toJson -}}
{{- end -}}

{{- define "fraction-injector.mode" -}}
{{- dig "resources" "mode" "per-gpu" . -}}
{{- end -}}

{{- define "fraction-injector.resource" -}}
{{- $modes := include "fraction-injector.modes" . | fromYaml -}}
{{- dig "resources" "driver" "" . | default (dig "resources" "name" "" .) | default (dig (include "fraction-injector.mode" .) "resource" "" $modes) -}}
{{- end -}}

{{/* Not empty if a policy's pods get claims: its resource is then the driver of these, whose name has no slash. */}}
{{- define "fraction-injector.claims" -}}
{{- range $policy := (include "fraction-injector.policies" . | fromJson) -}}{{- if not (contains "/" (include "fraction-injector.resource" $policy)) -}}true{{- end -}}{{- end -}}
{{- end -}}

{{/* Template of the per-GPU resource name, one for all policies (the product checks it); empty if all are pooled. */}}
{{- define "fraction-injector.perGpuResource" -}}
{{- $names := list -}}
{{- range $policy := (include "fraction-injector.policies" . | fromJson) -}}
{{- $name := include "fraction-injector.resource" $policy -}}
{{- if contains "{index}" $name -}}{{- $names = append $names $name -}}{{- end -}}
{{- end -}}
{{- if gt (len ($names | uniq)) 1 -}}
{{- fail (printf "policies: resources.name differs between policies of mode per-gpu (%s): use one name" ($names | uniq | join ", ")) -}}
{{- end -}}
{{- first (append $names "") -}}
{{- end -}}

{{/* Regular expression of a resource name's template. */}}
{{- define "fraction-injector.namePatternOf" -}}
{{- . | replace "." "[.]" | replace "{index}" "[0-9]+" | replace "mig-{profile}" "(mig-[1-9]g[.][0-9]+gb([.]me)?|gpu)" -}}
{{- end -}}

{{/* Regular expression of the per-GPU resource names; empty if all policies are pooled. */}}
{{- define "fraction-injector.perGpuPattern" -}}
{{- with include "fraction-injector.perGpuResource" . -}}^{{ include "fraction-injector.namePatternOf" . }}${{- end -}}
{{- end -}}

{{/* Regular expression of every resource name that can request a share. */}}
{{- define "fraction-injector.namePattern" -}}
{{- $names := list -}}
{{- range $policy := (include "fraction-injector.policies" . | fromJson) -}}
{{- $names = append $names (include "fraction-injector.resource" $policy | include "fraction-injector.namePatternOf") -}}
{{- if dig "resources" "prefer" list $policy -}}
{{- $names = append $names (include "fraction-injector.namePatternOf" "nvidia.com/mig-{profile}") -}}
{{- end -}}
{{- end -}}
^({{ $names | uniq | sortAlpha | join "|" }})$
{{- end -}}

{{/* CEL: policies whose pods may get MIG instances or slices. */}}
{{- define "fraction-injector.celPreferring" -}}
{{- $out := list -}}
{{- range $name, $policy := .Values.policies -}}
{{- if dig "resources" "prefer" list $policy -}}{{- $out = append $out $name -}}{{- end -}}
{{- end -}}
{{- $out | toJson -}}
{{- end -}}

{{/* CEL: policy to the template of its resource name. */}}
{{- define "fraction-injector.celResources" -}}
{{- $out := dict -}}
{{- range $name, $policy := (include "fraction-injector.policies" . | fromJson) -}}{{- $_ := set $out $name (include "fraction-injector.resource" $policy) -}}{{- end -}}
{{- $out | toJson -}}
{{- end -}}

{{/* CEL: policy to the slices of one GPU. */}}
{{- define "fraction-injector.celSlicesPerGpu" -}}
{{- $out := dict -}}
{{- range $name, $policy := .Values.policies -}}{{- $_ := set $out $name (int (dig "slicesPerGpu" 8 $policy)) -}}{{- end -}}
{{- $out | toJson -}}
{{- end -}}

{{/* CEL: label values that each policy and queue allows. */}}
{{- define "fraction-injector.celTexts" -}}
{{- $out := list -}}
{{- range $part := concat (values .Values.policies) (values .Values.queues) -}}
{{- $out = concat $out (include "fraction-injector.allowedFractions" (dict "fractions" $part.fractions) | fromJsonArray) -}}
{{- end -}}
{{- $out | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/* CEL: namespace to its policy. */}}
{{- define "fraction-injector.celPolicyOfNamespace" -}}
{{- $out := dict -}}
{{- range $name, $policy := .Values.policies -}}
{{- range $namespace := dig "namespaces" list $policy -}}{{- $_ := set $out $namespace $name -}}{{- end -}}
{{- end -}}
{{- $out | toJson -}}
{{- end -}}

{{/* CEL: policies that a queue's pods may follow, as policy/namespace, * for any namespace. */}}
{{- define "fraction-injector.celPoliciesOfQueues" -}}
{{- $out := list -}}
{{- range $entry := .Values.queues -}}
{{- $policy := dig "policy" "" $entry -}}
{{- if $policy -}}
{{- range $namespace := dig "namespaces" (list "*") $entry -}}{{- $out = append $out (printf "%s/%s" $policy $namespace) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $out | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/*
CEL: policy to the limits that its pods must carry, one of several lists where queues name other limiters;
what a queue says for one namespace alone stands under policy/namespace.
*/}}
{{- define "fraction-injector.celLimits" -}}
{{- $out := dict -}}
{{- range $name, $policy := (include "fraction-injector.policies" . | fromJson) -}}
{{- $mode := include "fraction-injector.mode" $policy -}}
{{- $limits := include "fraction-injector.limits" (dict "root" $ "limiter" (dig "limiter" "hami-core" $policy) "mode" $mode) | fromJsonArray -}}
{{- $_ := set $out $name (list $limits) -}}
{{- range $entry := $.Values.queues -}}
{{- if and (dig "limiter" "" $entry) (eq $name (dig "policy" $name $entry)) -}}
{{- $limits := include "fraction-injector.limits" (dict "root" $ "limiter" $entry.limiter "mode" $mode) | fromJsonArray -}}
{{- range $namespace := dig "namespaces" (list "*") $entry -}}
{{- $key := printf "%s/%s" $name $namespace -}}
{{- $_ := set $out $key (append (dig $key list $out) $limits) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $out | toJson -}}
{{- end -}}

{{/* CEL: policies with limits by the nodes' agents: their pods have none. */}}
{{- define "fraction-injector.celLimitedByAgent" -}}
{{- $out := list -}}
{{- range $name, $policy := (include "fraction-injector.policies" . | fromJson) -}}
{{- if or (eq (dig "limits" "from" "admission" $policy) "agent") (eq (include "fraction-injector.resource" $policy) "gpu.clearml-injector.io") -}}{{- $out = append $out $name -}}{{- end -}}
{{- end -}}
{{- $out | toJson -}}
{{- end -}}

{{/* CEL: labels of a ClearML queue. */}}
{{- define "fraction-injector.celQueueLabels" -}}
['clearml-agent-queue-name', 'clearml-agent-queue']
{{- end -}}

{{/* Paths of a node that the agent uses, for protectedHostPaths of every policy, as JSON. */}}
{{- define "fraction-injector.placesOfAgent" -}}
{{- $agent := .Values.agent -}}
{{- $places := list -}}
{{- if $agent.enabled -}}
{{- range concat (list $agent.stateDir $agent.kubeletDir $agent.runtimeSocket) $agent.cdiDirs -}}{{- $places = append $places (clean .) -}}{{- end -}}
{{- end -}}
{{- $places | uniq | toJson -}}
{{- end -}}

{{/* How the library is copied from a preset's image. */}}
{{- define "fraction-injector.presetInitContainers" -}}
hami-core:
  image: docker.io/projecthami/hamicore:v2.10.0
  command: [sh, -c, cp /k8s-vgpu/lib/nvidia/libvgpu.so.* /usr/local/vgpu/libvgpu.so]
  mountPath: /usr/local/vgpu
{{- end -}}

{{/* The same for the limiter of the agent's policy, as JSON; {} for one without a library. */}}
{{- define "fraction-injector.agentLibrary" -}}
{{- if not (hasKey .Values.policies .Values.agent.policy) -}}
{{- fail (printf "agent.policy: %q is not defined: use one of %s" .Values.agent.policy (keys .Values.policies | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $name := dig "limiter" "hami-core" (index .Values.policies .Values.agent.policy) -}}
{{- $presets := include "fraction-injector.presetInitContainers" . | fromYaml -}}
{{- $own := dig $name dict .Values.limiters -}}
{{- $library := dict -}}
{{- if or (not $own) $own.extends -}}{{- $library = dig ($own.extends | default $name) dict $presets -}}{{- end -}}
{{- with $own.initContainer -}}{{- $library = mergeOverwrite (dict) $library . -}}{{- end -}}
{{- with dig "library" "mountPath" "" $own -}}{{- $_ := set $library "mountPath" . -}}{{- end -}}
{{- $library | toJson -}}
{{- end -}}

{{/* Mount paths of the limiters' volumes, by preset. */}}
{{- define "fraction-injector.presetPaths" -}}
hami-core: [/usr/local/vgpu, /usr/local/vgpu-cache]
{{- end -}}

{{/* CEL: mount paths of all limiters' volumes. */}}
{{- define "fraction-injector.celLimiterPaths" -}}
{{- $paths := list -}}
{{- range include "fraction-injector.presetPaths" . | fromYaml -}}{{- $paths = concat $paths . -}}{{- end -}}
{{- range $limiter := .Values.limiters -}}
{{- range $volume := list (dig "library" dict $limiter) (dig "cache" dict $limiter) -}}
{{- with dig "mountPath" "" $volume -}}{{- $paths = append $paths . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $paths | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/* Policies under which an image may contain the limit, as JSON. */}}
{{- define "fraction-injector.celImagePolicies" -}}
{{- $limiters := list -}}
{{- if not (hasKey .Values.limiters "clearml-image") -}}{{- $limiters = append $limiters "clearml-image" -}}{{- end -}}
{{- range $name, $limiter := .Values.limiters -}}
{{- if hasKey $limiter "image" -}}{{- $limiters = append $limiters $name -}}{{- end -}}
{{- end -}}
{{- $out := list -}}
{{- range $name, $policy := .Values.policies -}}
{{- $used := list (dig "limiter" "hami-core" $policy) -}}
{{- range $entry := $.Values.queues -}}
{{- if eq $name (dig "policy" $name $entry) -}}{{- $used = append $used (dig "limiter" "" $entry) -}}{{- end -}}
{{- end -}}
{{- range $used -}}{{- if has . $limiters -}}{{- $out = append $out $name -}}{{- end -}}{{- end -}}
{{- end -}}
{{- $out | uniq | toJson -}}
{{- end -}}

{{/* CEL: whether the webhook serves a namespace whose labels are variables.labels. */}}
{{- define "fraction-injector.celServed" -}}
{{- $terms := list -}}
{{- $selector := include "fraction-injector.namespaceSelector" . | fromYaml -}}
{{- range $key, $value := dig "matchLabels" dict $selector -}}
{{- $terms = append $terms (printf "variables.labels[?'%s'] == optional.of('%s')" $key $value) -}}
{{- end -}}
{{- range $selector.matchExpressions -}}
{{- $has := printf "'%s' in variables.labels" .key -}}
{{- $values := dig "values" list . | toJson | replace "\"" "'" -}}
{{- if eq .operator "Exists" -}}{{- $terms = append $terms (printf "(%s)" $has) -}}
{{- else if eq .operator "DoesNotExist" -}}{{- $terms = append $terms (printf "!(%s)" $has) -}}
{{- else if eq .operator "In" -}}
{{- $terms = append $terms (printf "(%s && variables.labels['%s'] in %s)" $has .key $values) -}}
{{- else -}}
{{- $terms = append $terms (printf "!(%s && variables.labels['%s'] in %s)" $has .key $values) -}}
{{- end -}}
{{- end -}}
{{- $terms | join " && " -}}
{{- end -}}

{{/* Label of a queue, as the ClearML agent makes it of the queue's name. */}}
{{- define "fraction-injector.queueLabel" -}}
{{- lower . | replace "." "-" | replace "_" "-" | replace " " "-" -}}
{{- end -}}

{{/* Label values that a table of fractions allows, as a JSON list: (dict "fractions" TABLE); ClearML's without a table. */}}
{{- define "fraction-injector.allowedFractions" -}}
{{- if kindIs "map" .fractions -}}{{ keys .fractions | sortAlpha | toJson }}
{{- else -}}["0.125", "0.250", "0.375", "0.500", "0.625", "0.750", "0.875"]
{{- end -}}
{{- end -}}

{{/* Refuse a table of fractions with a wrong number of slices: (dict "at" PATH "fractions" TABLE "size" SLICES). */}}
{{- define "fraction-injector.checkFractions" -}}
{{- $at := .at -}}{{- $size := .size -}}
{{- range $text, $slices := .fractions -}}
{{- if not (regexMatch "^(0|[1-9][0-9]{0,3})([.][0-9]{1,6})?$" $text) -}}
{{- fail (printf "%s.fractions: %q is not a plain decimal number such as \"0.500\"" $at $text) -}}
{{- end -}}
{{- $share := mulf (float64 $text) (float64 $size) -}}
{{- $exact := ceil $share -}}
{{- if or (eq $exact 0.0) (and (ne $exact $share) (gt $share (float64 $size))) -}}
{{- fail (printf "%s.fractions: %q is neither a part of one GPU nor whole GPUs" $at $text) -}}
{{- end -}}
{{- if ne $exact (float64 $slices) -}}
{{- fail (printf "%s.fractions.%q: %v slices are not what the text says: of %v slices it is %v" $at $text $slices $size $exact) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fields of a policy that affect limits by the agent, as JSON. */}}
{{- define "fraction-injector.limitByAgent" -}}
{{- $reserve := dig "memory" "reserveMiB" 0 . -}}
{{- dict "limits.from" (dig "limits" "from" "admission" .) "limiter" (dig "limiter" "hami-core" .) "slicesPerGpu" (dig "slicesPerGpu" 8 .) "memory.reserveMiB" $reserve | toJson -}}
{{- end -}}

{{/* The agent limits all pods of its node by agent.policy: other values in another policy would have no effect. */}}
{{- define "fraction-injector.checkPolicyOfAgent" -}}
{{- $name := .root.Values.agent.policy -}}
{{- $own := include "fraction-injector.limitByAgent" (index .root.Values.policies .name) | fromJson -}}
{{- $agents := include "fraction-injector.limitByAgent" (dig $name dict .root.Values.policies) | fromJson -}}
{{- if and (eq (index $own "limits.from") "agent") (hasKey .root.Values.policies $name) -}}
{{- range $key, $value := $own -}}
{{- $other := index $agents $key -}}
{{- if ne (toString $value) (toString $other) -}}
{{- fail (printf "policies.%s.%s: %v, but %v in agent.policy %q, with which the agent limits the pods: make them equal" $.name $key $value $other $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Refuse values that the product would refuse when its pods start, as far as Helm can detect them, so that mistakes are reported at once. `fraction-injector check` finds the others.
*/}}
{{- define "fraction-injector.checkPolicies" -}}
{{- $policies := include "fraction-injector.policies" . | fromJson -}}
{{- if and .Values.agent.enabled .Values.agent.divide (not (contains "{index}" (include "fraction-injector.resource" (dig .Values.agent.policy dict $policies)))) -}}
{{- fail "agent.divide: some cards stay whole only in mode per-gpu of agent.policy: a pool has one name for all cards" -}}
{{- end -}}
{{- if and .Values.devicePlugin.enabled (eq (include "fraction-injector.offer" .) "dra") -}}
{{- fail "devicePlugin.enabled: the agent offers the cards to claims (agent.offer), and a device plugin would give them away a second time: turn one off" -}}
{{- end -}}
{{- $owner := dict -}}
{{- $allowed := list -}}
{{- $sizes := list -}}
{{- range $name, $policy := $policies -}}
{{- $sizes = append $sizes (dig "slicesPerGpu" 8 $policy) -}}
{{- if and (eq (dig "limits" "from" "admission" $policy) "agent") (not $.Values.agent.enabled) -}}
{{- fail (printf "policies.%s.limits.from: agent needs agent.enabled, because nothing else would limit its pods" $name) -}}
{{- end -}}
{{- if and (eq (include "fraction-injector.resource" $policy) "gpu.clearml-injector.io") (ne (include "fraction-injector.offer" $) "dra") -}}
{{- fail (printf "policies.%s.resources.mode: dra needs agent.enabled and agent.offer: dra, because only that offers cards to claims; for NVIDIA's driver set resources.driver: gpu.nvidia.com" $name) -}}
{{- end -}}
{{- if and (eq (include "fraction-injector.mode" $policy) "dra") (eq (include "fraction-injector.statedMode" (index $.Values.policies $name)) "auto") -}}
{{- range $key, $isSet := include "fraction-injector.notOfClaims" (dict "root" $ "name" $name "policy" $policy) | fromJson -}}
{{- if $isSet -}}
{{- fail (printf "policies.%s.%s is not for mode dra, which auto means in this cluster: leave it out, or set resources.mode: per-gpu" $name ($key | replace ", with" " with" | replace "," "")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (not (contains "/" (include "fraction-injector.resource" $policy))) (semverCompare "<1.34.0-0" $.Capabilities.KubeVersion.Version) -}}
{{- fail (printf "policies.%s.resources.mode: %s needs Kubernetes 1.36, or 1.34 with the feature gate DRAConsumableCapacity" $name $policy.resources.mode) -}}
{{- end -}}
{{- if and (dig "allow" "deviceClasses" list $policy) (not $.Values.secondLock.enabled) -}}
{{- fail (printf "policies.%s.allow.deviceClasses needs secondLock.enabled, because only that checks the class of claims" $name) -}}
{{- end -}}
{{- if and (dig "idleAfter" "" $policy) (not (include "fraction-injector.keepsUse" $)) -}}
{{- fail (printf "policies.%s.idleAfter needs agent.enabled and agent.podMetrics, because only that sees whether kernels run" $name) -}}
{{- end -}}
{{- include "fraction-injector.checkPolicyOfAgent" (dict "root" $ "name" $name) -}}
{{- include "fraction-injector.limits" (dict "root" $ "limiter" (dig "limiter" "hami-core" $policy) "mode" (include "fraction-injector.mode" $policy)) | trunc 0 -}}
{{- include "fraction-injector.checkFractions" (dict "at" (printf "policies.%s" $name) "fractions" (dig "fractions" dict $policy) "size" (dig "slicesPerGpu" 8 $policy)) -}}
{{- $allowed = concat $allowed (include "fraction-injector.allowedFractions" (dict "fractions" $policy.fractions) | fromJsonArray) -}}
{{- range $namespace := dig "namespaces" list $policy -}}
{{- if hasKey $owner $namespace -}}
{{- fail (printf "policies.%s.namespaces: %q belongs to policy %q already: keep it in one" $name $namespace (index $owner $namespace)) -}}
{{- end -}}
{{- $_ := set $owner $namespace $name -}}
{{- end -}}
{{- end -}}
{{- $labels := dict -}}
{{- range $name, $entry := .Values.queues -}}
{{- $label := include "fraction-injector.queueLabel" $name -}}
{{- if hasKey $labels $label -}}
{{- fail (printf "queues: %q and %q both become the label %q, so that their pods look the same: rename one" (index $labels $label) $name $label) -}}
{{- end -}}
{{- $_ := set $labels $label $name -}}
{{- if and (dig "idleAfter" "" $entry) (not (include "fraction-injector.keepsUse" $)) -}}
{{- fail (printf "queues.%s.idleAfter needs agent.enabled and agent.podMetrics, because only that sees whether kernels run" $name) -}}
{{- end -}}
{{- $policy := dig "policy" "" $entry -}}
{{- if and $policy (not (hasKey $.Values.policies $policy)) -}}
{{- fail (printf "queues.%s.policy: %q is not defined: use one of %s" $name $policy (keys $.Values.policies | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $size := dig "slicesPerGpu" 8 (index $.Values.policies ($policy | default "default")) -}}
{{- if and (hasKey $entry "fractions") (or $policy (eq (len ($sizes | uniq)) 1)) -}}
{{- include "fraction-injector.checkFractions" (dict "at" (printf "queues.%s" $name) "fractions" $entry.fractions "size" $size) -}}
{{- end -}}
{{- with dig "limiter" "" $entry -}}
{{- include "fraction-injector.limits" (dict "root" $ "limiter" . "mode" (include "fraction-injector.mode" dict)) | trunc 0 -}}
{{- end -}}
{{- $texts := $allowed -}}
{{- if kindIs "map" $entry.fractions -}}{{- $texts = keys $entry.fractions -}}
{{- else if $policy -}}{{- $texts = include "fraction-injector.allowedFractions" (dict "fractions" (index $.Values.policies $policy).fractions) | fromJsonArray -}}
{{- end -}}
{{- include "fraction-injector.checkLabel" (dict "at" (printf "queues.%s.templateOverrides" $name) "template" (dig "templateOverrides" dict $entry) "allowed" $texts) -}}
{{- end -}}
{{- include "fraction-injector.checkLabel" (dict "at" "basePodTemplate" "template" .Values.basePodTemplate "allowed" $allowed) -}}
{{- end -}}

{{/* Refuse a template whose label no policy allows: (dict "at" PATH "template" TEMPLATE "allowed" TEXTS). */}}
{{- define "fraction-injector.checkLabel" -}}
{{- $labels := dig "labels" dict .template -}}
{{- if hasKey $labels "clearml-injector/fraction" -}}
{{- $label := index $labels "clearml-injector/fraction" -}}
{{- if not (has $label .allowed) -}}
{{- fail (printf "%s.labels: clearml-injector/fraction: %q is not allowed: use one of %s" .at $label (.allowed | uniq | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
