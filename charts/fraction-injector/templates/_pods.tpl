{{/* Common parts of the Deployments and the DaemonSet; all take (dict "root" $ "component" NAME "values" VALUES). */}}

{{- define "fraction-injector.metadata" -}}
name: {{ include "fraction-injector.fullname" .root }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "fraction-injector.componentLabels" . | nindent 2 }}
{{- end -}}

{{/* Of a Deployment or DaemonSet. */}}
{{- define "fraction-injector.workloadMetadata" -}}
{{ include "fraction-injector.metadata" . }}
{{- with .values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* With the labels under "labels", if any. */}}
{{- define "fraction-injector.componentLabels" -}}
{{- $own := include "fraction-injector.labels" .root | fromYaml -}}
{{- include "fraction-injector.joinedLabels" (list $own (dict "app.kubernetes.io/component" .component) .labels) -}}
{{- end -}}

{{- define "fraction-injector.componentSelector" -}}
{{ include "fraction-injector.selector" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "fraction-injector.deploymentSpec" -}}
replicas: {{ .values.replicas }}
revisionHistoryLimit: {{ .root.Values.revisionHistoryLimit }}
progressDeadlineSeconds: 600
selector:
  matchLabels:
    {{- include "fraction-injector.componentSelector" . | nindent 4 }}
{{- end -}}

{{- define "fraction-injector.podMetadata" -}}
labels:
  {{- include "fraction-injector.componentLabels" (merge (dict "labels" .values.podLabels) .) | nindent 2 }}
{{- with .values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "fraction-injector.podPlacement" -}}
restartPolicy: Always
schedulerName: default-scheduler
# Unready after SIGTERM for stopDelaySeconds, then at most 20 s for requests in progress.
terminationGracePeriodSeconds: 40
{{- with include "fraction-injector.priorityClassName" .root }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- if .values.affinity }}
  {{- toYaml .values.affinity | nindent 2 }}
  {{- else }}
  # Zones are here and not in the constraints below: a node that lacks one of their keys would count for neither.
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: topology.kubernetes.io/zone
          labelSelector:
            matchLabels:
              {{- include "fraction-injector.componentSelector" . | nindent 14 }}
  {{- end }}
topologySpreadConstraints:
  {{- if .values.topologySpreadConstraints }}
  {{- toYaml .values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "fraction-injector.componentSelector" . | nindent 8 }}
    # Pods that a rollout will remove must not count, or all new pods would be on one node.
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end -}}

{{- define "fraction-injector.container" -}}
image: {{ include "fraction-injector.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources:
  {{- toYaml .values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  readOnlyRootFilesystem: true
terminationMessagePath: /dev/termination-log
terminationMessagePolicy: File
{{ include "fraction-injector.probes" . | trim }}
{{- end -}}

{{- define "fraction-injector.probes" -}}
{{- range $probe, $settings := dict
  "startupProbe" (dict "path" "/livez" "periodSeconds" 1 "failureThreshold" 60)
  "livenessProbe" (dict "path" "/livez" "periodSeconds" 10 "failureThreshold" 6)
  "readinessProbe" (dict "path" "/readyz" "periodSeconds" 2 "failureThreshold" 1) }}
{{- $settings = mergeOverwrite (dict "timeoutSeconds" 5) $settings (get $.values.probes $probe | default dict) }}
{{ $probe }}:
  httpGet:
    path: {{ $settings.path }}
    port: health
    scheme: HTTP
  periodSeconds: {{ $settings.periodSeconds }}
  failureThreshold: {{ $settings.failureThreshold }}
  successThreshold: 1
  timeoutSeconds: {{ $settings.timeoutSeconds }}
  {{- with $settings.initialDelaySeconds }}
  initialDelaySeconds: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "fraction-injector.tlsVolume" -}}
- name: tls
  secret:
    secretName: {{ include "fraction-injector.tlsSecret" .root }}
    defaultMode: 0440
{{- end -}}

{{- define "fraction-injector.serviceAccount" -}}
{{- .values.serviceAccount.name | default (printf "%s-%s" (include "fraction-injector.fullname" .root) .component) -}}
{{- end -}}

{{- define "fraction-injector.serviceAccountMetadata" -}}
name: {{ include "fraction-injector.serviceAccount" . }}
{{ omit (include "fraction-injector.metadata" . | fromYaml) "name" | toYaml }}
{{- with .values.serviceAccount.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "fraction-injector.strategy" -}}
{{- if .values.strategy -}}
{{- toYaml .values.strategy }}
{{- else -}}
type: RollingUpdate
rollingUpdate:
  {{- if .values.hostNetwork }}
  # Two pods cannot use the same host ports, so the old one is removed first.
  maxSurge: 0
  maxUnavailable: 1
  {{- else }}
  maxSurge: 1
  maxUnavailable: 0
  {{- end }}
{{- end }}
{{- end -}}

{{/* Arguments of every process; those from the values come last. */}}
{{- define "fraction-injector.moreArgs" -}}
- --log-level={{ .root.Values.logging.level }}
- --log-format={{ .root.Values.logging.format }}
{{- with .values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "fraction-injector.service" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "fraction-injector.metadata" (merge (dict "labels" .values.service.labels) .) | nindent 2 }}
  {{- with .values.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: ClusterIP
  {{- with .values.service.ipFamilyPolicy }}
  ipFamilyPolicy: {{ . }}
  {{- end }}
  {{- with .values.service.ipFamilies }}
  ipFamilies: {{ toJson . }}
  {{- end }}
  {{- with .values.service.trafficDistribution }}
  trafficDistribution: {{ . }}
  {{- end }}
  internalTrafficPolicy: Cluster
  sessionAffinity: None
  selector:
    {{- include "fraction-injector.componentSelector" . | nindent 4 }}
  ports:
    - name: https
      port: {{ .port }}
      targetPort: https
      protocol: TCP
    - name: health
      port: {{ .values.healthPort }}
      targetPort: health
      protocol: TCP
{{- end -}}

{{- define "fraction-injector.disruptionBudget" -}}
{{- if and .root.Values.podDisruptionBudget.enabled (gt (int .values.replicas) 1) }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "fraction-injector.metadata" . | nindent 2 }}
spec:
  minAvailable: 1
  # A pod that never becomes ready must not block the draining of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "fraction-injector.componentSelector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{/* Ports and blocks as (dict "blocks" CIDRS "port" PORT). */}}
{{- define "fraction-injector.ingressFromBlocks" -}}
- from:
    {{- range .blocks }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  ports:
    - {port: {{ .port }}, protocol: TCP}
{{- end -}}

{{/* Of an object that exists only for `helm test`. */}}
{{- define "fraction-injector.testMetadata" -}}
{{ include "fraction-injector.metadata" . }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-weight: "-1"
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
