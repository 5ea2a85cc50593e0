{{/* Fields that only the agent's pods have; all take (dict "root" $ "component" "agent" "values" VALUES). */}}

{{- define "fraction-injector.agentPod" -}}
restartPolicy: Always
schedulerName: default-scheduler
terminationGracePeriodSeconds: 10
serviceAccountName: {{ include "fraction-injector.fullname" .root }}-agent
# Only for the GpuNode of its node: see rbac.yaml.
automountServiceAccountToken: true
dnsPolicy: ClusterFirst
{{- if .values.podMetrics }}
# The driver reports process IDs of the node.
hostPID: true
{{- end }}
{{- with include "fraction-injector.priorityClassName" .root }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
# The kubelet's folders belong to root.
securityContext:
  runAsUser: 0
  runAsGroup: 0
  seccompProfile: {type: RuntimeDefault}
{{- $nodes := include "fraction-injector.agentNodes" .values | fromJson }}
{{- with $nodes.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $nodes.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
tolerations:
  # The taint of nodes whose agent does not serve yet.
  - {key: clearml-injector.io/agent-not-ready, operator: Exists, effect: NoSchedule}
  {{- with .values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Its nodes, as {nodeSelector, affinity} in JSON; takes .Values.agent. The GPU operator (26.7 or newer) labels nodes whose
clients of the driver may run with "true", and writes something else while the driver must be let go of. Its driver manager
and MIG manager wait for pods with the key in their nodeSelector. Without such an operator the label is absent. */}}
{{- define "fraction-injector.agentNodes" -}}
{{- $client := "nvidia.com/gpu.deploy.client" }}
{{- $selector := deepCopy (.nodeSelector | default dict) }}
{{- $affinity := deepCopy (.affinity | default dict) }}
{{- if .gpuOperator }}
{{- $_ := set $selector $client "true" }}
{{- else }}
{{- $ofNodes := $affinity.nodeAffinity | default dict }}
{{- $required := $ofNodes.requiredDuringSchedulingIgnoredDuringExecution | default dict }}
{{- $may := list (dict "key" $client "operator" "DoesNotExist") (dict "key" $client "operator" "In" "values" (list "true")) }}
{{- $terms := list }}
{{- range $term := $required.nodeSelectorTerms | default (list dict) }}
{{- range $one := $may }}
{{- $terms = append $terms (merge (dict "matchExpressions" (append ($term.matchExpressions | default list) $one)) $term) }}
{{- end }}
{{- end }}
{{- $_ := set $required "nodeSelectorTerms" $terms }}
{{- $_ := set $ofNodes "requiredDuringSchedulingIgnoredDuringExecution" $required }}
{{- $_ := set $affinity "nodeAffinity" $ofNodes }}
{{- end }}
{{- dict "nodeSelector" $selector "affinity" $affinity | toJson }}
{{- end -}}

{{/* The controller's option about the DaemonSet. If it runs on all nodes, it does not select by the operator's label either: else nodes without
GPUs would be held. */}}
{{- define "fraction-injector.agentPodsForController" -}}
{{- $ofNodes := (.affinity | default dict).nodeAffinity | default dict }}
{{- $nodes := dict "nodeSelector" .nodeSelector "affinity" .affinity }}
{{- if or .nodeSelector .gpuOperator $ofNodes.requiredDuringSchedulingIgnoredDuringExecution }}
{{- $nodes = include "fraction-injector.agentNodes" . | fromJson }}
{{- end }}
{{- merge (dict "tolerations" .tolerations) $nodes | toJson }}
{{- end -}}

{{- define "fraction-injector.unprivileged" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}

{{- define "fraction-injector.agentSecurity" -}}
{{- if .values.privileged -}}
privileged: true
readOnlyRootFilesystem: true
{{- else -}}
{{- include "fraction-injector.unprivileged" . }}
{{- end }}
{{- end -}}
