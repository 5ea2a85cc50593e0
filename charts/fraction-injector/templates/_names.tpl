{{- define "fraction-injector.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 63 characters, as in the name of a Service, minus the longest suffix in the templates. */}}
{{- define "fraction-injector.fullname" -}}
{{- $name := include "fraction-injector.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "fraction-injector.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: {{ .Chart.Name }}
{{ include "fraction-injector.selector" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels; if a key occurs twice, the later one wins, because many tools reject duplicate keys in YAML. */}}
{{- define "fraction-injector.joinedLabels" -}}
{{- $joined := dict -}}
{{- range . }}{{ $joined = mergeOverwrite $joined (. | default dict) }}{{ end -}}
{{- toYaml $joined -}}
{{- end -}}

{{- define "fraction-injector.selector" -}}
app.kubernetes.io/name: {{ include "fraction-injector.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fraction-injector.image" -}}
{{- with .Values.image -}}
{{ required "image.repository: build the image from the Dockerfile, push it, and name it here" .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "fraction-injector.priorityClassName" -}}
{{- if .Values.priorityClass.create -}}
{{- include "fraction-injector.fullname" . -}}
{{- else -}}
{{- .Values.priorityClass.name -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the certificate that webhook and controller serve. */}}
{{- define "fraction-injector.tlsSecret" -}}
{{- if eq .Values.tls.mode "existing-secret" -}}
{{- .Values.tls.existingSecret -}}
{{- else -}}
{{- include "fraction-injector.fullname" . }}-tls
{{- end -}}
{{- end -}}

{{/* All DNS names of a Service, under which the API server and the webhook connect to it. */}}
{{- define "fraction-injector.serviceNames" -}}
{{- $ns := .Release.Namespace -}}
{{- range $component := list "webhook" "controller" }}
{{- $name := printf "%s-%s" (include "fraction-injector.fullname" $) $component }}
- {{ $name }}
- {{ $name }}.{{ $ns }}
- {{ $name }}.{{ $ns }}.svc
- {{ $name }}.{{ $ns }}.svc.cluster.local
{{- end }}
{{- end -}}

{{/* Namespaces that the webhook serves. The release's own is excluded, because its pods must start without the webhook. */}}
{{- define "fraction-injector.namespaceSelector" -}}
{{- $selector := .Values.webhook.namespaceSelector -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ prepend (prepend .Values.webhook.excludedNamespaces "kube-system") .Release.Namespace | uniq | toJson }}
  {{- with $selector.matchExpressions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $selector.matchLabels }}
matchLabels:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Not empty if the controller writes the CA into the webhook configuration. */}}
{{- define "fraction-injector.injectsCa" -}}
{{- if eq .Values.tls.mode "self-managed" -}}
true
{{- else if and (eq .Values.tls.mode "existing-secret") (not .Values.webhook.caBundle) -}}
true
{{- end -}}
{{- end -}}

{{- /* Whether the controller changes nodes. In the upgrade that turns the agent off its role is there still, and the taint has
to go from nodes that are held. */}}
{{- define "fraction-injector.patchesNodes" -}}
{{- $agentBefore := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (printf "%s-agent" (include "fraction-injector.fullname" .)) -}}
{{- if or .Values.agent.enabled $agentBefore .Values.mig.dynamic.enabled }}true{{ end -}}
{{- end -}}
